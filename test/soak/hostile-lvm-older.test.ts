import { describeHostileShrinks } from "./hostile-vm.ts";

describeHostileShrinks("lvm", "older");
