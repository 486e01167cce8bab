import { describeFuzz } from "../../fuzz/describe-fuzz.ts";
import { NODE_TARGETS } from "../../fuzz/targets/node.ts";

describeFuzz("input that nobody would write by right", NODE_TARGETS);
