import { describeFuzz } from "../../fuzz/describe-fuzz.ts";
import { POLICY_TARGETS } from "../../fuzz/targets/policies.ts";

describeFuzz("input that no correct writer produces", POLICY_TARGETS);
