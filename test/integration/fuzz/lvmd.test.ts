import { describeFuzz } from "../../fuzz/describe-fuzz.ts";
import { LVMD_TARGETS } from "../../fuzz/targets/lvmd.ts";

describeFuzz("input that nobody would write by right", LVMD_TARGETS);
