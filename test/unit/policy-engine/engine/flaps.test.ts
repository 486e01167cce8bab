// Flaps in the running engine: what it remembers of a shrink and of the extend that takes it back, and what the next engine knows of it.
import { expect, it } from "@jest/globals";
import { GIB } from "../../../../src/contracts/quantities/quantity.ts";
import { createEngineMetrics } from "../../../../src/policy-engine/metrics.ts";
import { aPolicy, EXTEND_AT_80 } from "../../../builders/policy.ts";
import { BudgetedNamespace } from "../../../harness/budgeted-namespace.ts";

const metrics = createEngineMetrics(() => true);
const BREATHING = aPolicy({
  mode: { extend: "Enforce", shrink: "Enforce" },
  limits: { min: "1Gi", max: "1000Gi", minAvailable: "512Mi" },
  rules: [EXTEND_AT_80, { name: "instant", action: "Shrink", when: "volume.usedRatio < 0.3", targetUsed: "50%" }],
  behavior: { shrink: { cooldown: "0s", stabilization: "1m" } },
});

/** So many seconds with that much in use, or as much as there is room for; a decision each second; what is decided is there at once. */
async function live(namespace: BudgetedNamespace, usedBytes: number, seconds: number): Promise<void> {
  for (let second = 0; second < seconds; second += 1) {
    namespace.use("v0", Math.min(0.9, usedBytes / namespace.sizeBytes("v0")));
    namespace.tick();
    await namespace.decide();
    namespace.watch();
    namespace.nodeReachesTarget("v0");
    namespace.watch();
  }
}

async function breathe(namespace: BudgetedNamespace): Promise<void> {
  await live(namespace, 8 * GIB, 10);
  await live(namespace, 1 * GIB, 70);
}

it("two shrinks that were taken back are in the status, and hold the third one, after a restart, too", async () => {
  const namespace = new BudgetedNamespace(1000 * GIB, [{ sizeBytes: 16 * GIB, usedRatio: 0.5 }], metrics, BREATHING);
  await breathe(namespace);
  expect(namespace.sizeBytes("v0")).toBeLessThan(4 * GIB);
  expect(namespace.scalingOf("v0")).toMatchObject({ peakBeforeShrink: "8Gi" });
  expect(namespace.scalingOf("v0")?.flappedAt).toBeUndefined();
  await breathe(namespace);
  expect(namespace.scalingOf("v0")?.flappedAt).toHaveLength(1);
  expect(namespace.sizeBytes("v0")).toBeLessThan(4 * GIB);
  await breathe(namespace);
  expect(namespace.scalingOf("v0")?.flappedAt).toHaveLength(2);
  expect(namespace.reasonOf("v0")).toBe("WouldFlap");
  namespace.restart();
  await live(namespace, 1 * GIB, 70);
  expect(namespace.reasonOf("v0")).toBe("WouldFlap");
  expect(namespace.sizeBytes("v0")).toBeGreaterThan(9 * GIB);
});
