import { describeFuzz } from "../../fuzz/describe-fuzz.ts";
import { NODE_TARGETS } from "../../fuzz/targets/node.ts";

describeFuzz("input that no correct writer produces", NODE_TARGETS);
