import { POLICY_TARGETS } from "../fuzz/targets/policies.ts";
import { describeMillionInputs } from "./million-inputs.ts";

describeMillionInputs("fuzz-policies", POLICY_TARGETS);
