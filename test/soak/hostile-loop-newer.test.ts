import { describeHostileShrinks } from "./hostile-vm.ts";

describeHostileShrinks("loop", "newer");
