import { NODE_TARGETS } from "../fuzz/targets/node.ts";
import { describeMillionInputs } from "./million-inputs.ts";

describeMillionInputs("fuzz-node", NODE_TARGETS);
