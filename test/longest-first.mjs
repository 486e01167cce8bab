// The order in which suites are handed to Jest's workers: those first that take longer than all others, which would otherwise run alone at
// the end while the second core has nothing to do.
import TestSequencer from "@jest/test-sequencer";

/** The longest first. */
const LONGEST = [
  "/test/real/kill-matrix.test.ts",
  "/test/real/lvmd.test.ts",
  "/test/real/power-cut.test.ts",
  "/test/e2e/placement.test.ts",
  "/test/e2e/consolidation.test.ts",
  "/test/real/lvm-copies.test.ts",
  "/test/real/agent-lvm-crash.test.ts",
  "/test/real/span-crash.test.ts",
  "/test/e2e/lvm.test.ts",
  "/test/e2e/recovery.test.ts",
  "/test/e2e/outages.test.ts",
  "/test/real/lvm-crash.test.ts",
  "/test/e2e/span.test.ts",
  "/test/e2e/installation.test.ts",
  "/test/real/ext4-offline.test.ts",
  "/test/real/power-cut-unmounted.test.ts",
  "/test/real/lvm-storage.test.ts",
  "/test/real/thin-pool.test.ts",
  "/test/e2e/placement-scale.test.ts",
  "/test/integration/storage/shrink-btrfs.test.ts",
  "/test/integration/storage/copy.test.ts",
  "/test/integration/storage/span-storage.test.ts",
  "/test/integration/storage/host-limits.test.ts",
  "/test/integration/storage/span-devices.test.ts",
  "/test/integration/agent/agent-span.test.ts",
  "/test/integration/agent/agent-settle.test.ts",
  "/test/integration/prometheus.test.ts",
  "/test/integration/agent/agent-trim.test.ts",
  "/test/integration/operator/consolidation.test.ts",
];

export default class LongestFirst extends TestSequencer {
  sort(tests) {
    const rank = ({ path }) => LONGEST.findIndex((one) => path.endsWith(one));
    const longest = tests.filter((test) => rank(test) >= 0).sort((a, b) => rank(a) - rank(b));
    return [...longest, ...super.sort(tests.filter((test) => rank(test) < 0))];
  }
}
