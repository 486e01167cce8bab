import { describeReal, LOOP_PARTS } from "../harness/real-parts.ts";
import { itSurvivesHostileShrinks } from "../vm/hostile/describe-hostile-shrinks.ts";
import { loopGround } from "../vm/hostile/hostile-ground.ts";

describeReal("hostile shrinks under this machine's kernel", LOOP_PARTS, () => {
  itSurvivesHostileShrinks({ on: "a loop device", makeGround: loopGround, countOfCommit: 12, countOfLongRun: 200 });
});
