// All fuzzed parsers. A new one: a row in the file of its process, and that is all.
import type { FuzzTarget } from "./target.ts";
import { CSI_TARGETS } from "./targets/csi.ts";
import { LVMD_TARGETS } from "./targets/lvmd.ts";
import { NODE_TARGETS } from "./targets/node.ts";
import { POLICY_TARGETS } from "./targets/policies.ts";
import { RECORD_TARGETS } from "./targets/records.ts";
import { REQUEST_TARGETS } from "./targets/requests.ts";
import { UNIT_TARGETS } from "./targets/units.ts";

export const FUZZ_TARGETS: readonly FuzzTarget[] = [
  ...UNIT_TARGETS,
  ...POLICY_TARGETS,
  ...CSI_TARGETS,
  ...REQUEST_TARGETS,
  ...LVMD_TARGETS,
  ...NODE_TARGETS,
  ...RECORD_TARGETS,
];
