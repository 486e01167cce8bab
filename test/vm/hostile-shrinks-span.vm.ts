// Members that leave a hostile user's span. Runs inside the virtual machine that test/soak/hostile-span-*.test.ts starts.
import { itSurvivesHostileShrinks } from "./hostile/describe-hostile-shrinks.ts";
import { spanGround } from "./hostile/hostile-ground.ts";

itSurvivesHostileShrinks({ on: "a span", makeGround: spanGround, countOfCommit: 8, countOfLongRun: 200 });
