import { describeHostileShrinks } from "./hostile-vm.ts";

describeHostileShrinks("span", "newer");
