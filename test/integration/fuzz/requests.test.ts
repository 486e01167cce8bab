import { describeFuzz } from "../../fuzz/describe-fuzz.ts";
import { REQUEST_TARGETS } from "../../fuzz/targets/requests.ts";

describeFuzz("input that no correct writer produces", REQUEST_TARGETS);
