// Runs inside the virtual machine that test/soak/hostile-loop-*.test.ts starts: kernels that move data in their own ways.
import { itSurvivesHostileShrinks } from "./hostile/describe-hostile-shrinks.ts";
import { loopGround } from "./hostile/hostile-ground.ts";

itSurvivesHostileShrinks({ on: "a loop device", makeGround: loopGround, countOfCommit: 12, countOfLongRun: 200 });
