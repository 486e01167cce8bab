import { RECORD_TARGETS } from "../fuzz/targets/records.ts";
import { describeMillionInputs } from "./million-inputs.ts";

describeMillionInputs("fuzz-records", RECORD_TARGETS);
