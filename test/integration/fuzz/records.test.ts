import { describeFuzz } from "../../fuzz/describe-fuzz.ts";
import { RECORD_TARGETS } from "../../fuzz/targets/records.ts";

describeFuzz("input that no correct writer produces", RECORD_TARGETS);
