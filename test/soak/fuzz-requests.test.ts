import { CSI_TARGETS } from "../fuzz/targets/csi.ts";
import { POLICY_TARGETS } from "../fuzz/targets/policies.ts";
import { REQUEST_TARGETS } from "../fuzz/targets/requests.ts";
import { UNIT_TARGETS } from "../fuzz/targets/units.ts";
import { describeMillionInputs } from "./million-inputs.ts";

describeMillionInputs("fuzz-requests", [...CSI_TARGETS, ...POLICY_TARGETS, ...REQUEST_TARGETS, ...UNIT_TARGETS]);
