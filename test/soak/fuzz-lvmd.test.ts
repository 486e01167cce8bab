import { LVMD_TARGETS } from "../fuzz/targets/lvmd.ts";
import { describeMillionInputs } from "./million-inputs.ts";

describeMillionInputs("fuzz-lvmd", LVMD_TARGETS);
