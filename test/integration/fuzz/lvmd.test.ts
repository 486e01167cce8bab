import { describeFuzz } from "../../fuzz/describe-fuzz.ts";
import { LVMD_TARGETS } from "../../fuzz/targets/lvmd.ts";

describeFuzz("input that no correct writer produces", LVMD_TARGETS);
