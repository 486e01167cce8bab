import { describeFuzz } from "../../fuzz/describe-fuzz.ts";
import { UNIT_TARGETS } from "../../fuzz/targets/units.ts";

describeFuzz("input that no correct writer produces", UNIT_TARGETS);
