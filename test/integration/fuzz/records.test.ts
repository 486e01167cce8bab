import { describeFuzz } from "../../fuzz/describe-fuzz.ts";
import { RECORD_TARGETS } from "../../fuzz/targets/records.ts";

describeFuzz("input that nobody would write by right", RECORD_TARGETS);
