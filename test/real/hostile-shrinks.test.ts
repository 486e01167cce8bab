import { describeReal, LOOP_PARTS } from "../harness/real-parts.ts";
import { itSurvivesHostileShrinks } from "../vm/hostile/describe-hostile-shrinks.ts";
import { loopGround, spanGround } from "../vm/hostile/hostile-ground.ts";

describeReal("hostile shrinks under this machine's kernel", LOOP_PARTS, () => {
  itSurvivesHostileShrinks({ on: "a loop device", makeGround: loopGround, countOfCommit: 12, countOfLongRun: 200 });
  itSurvivesHostileShrinks({ on: "a span", makeGround: spanGround, countOfCommit: 4, countOfLongRun: 100 });
});
