import { describeFuzz } from "../../fuzz/describe-fuzz.ts";
import { CSI_TARGETS } from "../../fuzz/targets/csi.ts";

describeFuzz("input that no correct writer produces", CSI_TARGETS);
