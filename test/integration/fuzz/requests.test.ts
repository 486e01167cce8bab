import { describeFuzz } from "../../fuzz/describe-fuzz.ts";
import { REQUEST_TARGETS } from "../../fuzz/targets/requests.ts";

describeFuzz("input that nobody would write by right", REQUEST_TARGETS);
