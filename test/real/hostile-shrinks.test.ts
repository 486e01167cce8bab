import { describeReal, LOOP_PARTS } from "../harness/real-parts.ts";
import { itSurvivesHostileShrinks } from "../vm/hostile/describe-hostile-shrinks.ts";

describeReal("hostile shrinks under this machine's kernel", LOOP_PARTS, itSurvivesHostileShrinks);
