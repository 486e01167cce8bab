import { describeFuzz } from "../../fuzz/describe-fuzz.ts";
import { UNIT_TARGETS } from "../../fuzz/targets/units.ts";

describeFuzz("input that nobody would write by right", UNIT_TARGETS);
