// Runs inside the virtual machine that test/soak/hostile-shrinks-vm.test.ts starts: kernels that move data in their own ways.
import { itSurvivesHostileShrinks } from "./hostile/describe-hostile-shrinks.ts";

itSurvivesHostileShrinks();
