import { describeFuzz } from "../../fuzz/describe-fuzz.ts";
import { POLICY_TARGETS } from "../../fuzz/targets/policies.ts";

describeFuzz("input that nobody would write by right", POLICY_TARGETS);
