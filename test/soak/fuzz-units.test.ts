import { UNIT_TARGETS } from "../fuzz/targets/units.ts";
import { describeMillionInputs } from "./million-inputs.ts";

describeMillionInputs("fuzz-units", UNIT_TARGETS);
