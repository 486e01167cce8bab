import { REQUEST_TARGETS } from "../fuzz/targets/requests.ts";
import { describeMillionInputs } from "./million-inputs.ts";

describeMillionInputs("fuzz-requests", REQUEST_TARGETS);
