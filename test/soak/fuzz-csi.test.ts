import { CSI_TARGETS } from "../fuzz/targets/csi.ts";
import { describeMillionInputs } from "./million-inputs.ts";

describeMillionInputs("fuzz-csi", CSI_TARGETS);
