import { describeFuzz } from "../../fuzz/describe-fuzz.ts";
import { CSI_TARGETS } from "../../fuzz/targets/csi.ts";

describeFuzz("input that nobody would write by right", CSI_TARGETS);
