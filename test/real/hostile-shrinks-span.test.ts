import { describeReal, LOOP_PARTS } from "../harness/real-parts.ts";
import { itSurvivesHostileShrinks } from "../vm/hostile/describe-hostile-shrinks.ts";
import { spanGround } from "../vm/hostile/hostile-ground.ts";

describeReal("hostile shrinks of spans under this machine's kernel", LOOP_PARTS, () => {
  itSurvivesHostileShrinks({ on: "a span", makeGround: spanGround, countOfCommit: 4, countOfLongRun: 200 });
});
