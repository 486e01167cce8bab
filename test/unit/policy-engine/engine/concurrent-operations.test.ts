// Ceilings on what runs at once hold in any order of decisions and ends; who waits has its turn in order (I6).
import { describe, expect, it } from "@jest/globals";
import fc from "fast-check";
import { GIB, parseQuantity } from "../../../../src/contracts/quantities/quantity.ts";
import { createEngineMetrics } from "../../../../src/policy-engine/metrics.ts";
import { aPolicy } from "../../../builders/policy.ts";
import { BudgetedNamespace, type VolumeOfNamespace } from "../../../harness/budgeted-namespace.ts";
import { property } from "../../../harness/property.ts";

const metrics = createEngineMetrics(() => true);
const POLICY = aPolicy({
  limits: { min: "1Gi", max: "1000Gi", minAvailable: "512Mi" },
  mode: { extend: "Enforce", shrink: "Enforce" },
  rules: [
    { name: "extend-at-80", action: "Extend", when: "volume.usedRatio >= 0.8", by: "10%" },
    { name: "shrink-below-20", action: "Shrink", when: "volume.usedRatioMax('2s') < 0.2", by: "10%" },
  ],
  behavior: { shrink: { cooldown: "0s", stabilization: "0s" } },
});
const on = (nodeName: string, usedRatio = 0.85): VolumeOfNamespace => ({ sizeBytes: 20 * GIB, usedRatio, nodeName });

function namespaceOf(
  concurrentOperations: { perNode?: number; perCluster?: number },
  ...volumes: VolumeOfNamespace[]
): BudgetedNamespace {
  return new BudgetedNamespace(10_000 * GIB, volumes, metrics, POLICY, { concurrentOperations });
}

const standing = (namespace: BudgetedNamespace): string[] =>
  namespace.handles.filter((handle) => namespace.isStanding(handle));

async function carryOut(namespace: BudgetedNamespace, handle: string): Promise<void> {
  namespace.tick(2);
  namespace.nodeReachesTarget(handle);
  namespace.watch();
  namespace.use(handle, 0.5);
  await namespace.decide([handle]);
}

describe("the ceiling on operations that run at once", () => {
  it("lets as many go on each node and in the cluster as it allows, and says that the others wait", async () => {
    const namespace = namespaceOf({ perNode: 1, perCluster: 2 }, on("a"), on("a"), on("b"), on("c"));
    await namespace.decide();
    expect(standing(namespace)).toEqual(["v0", "v2"]);
    expect(namespace.scalingOf("v1")).toMatchObject({ plan: "hold", reason: "OperationsAtLimit" });
    expect(namespace.scalingOf("v1")?.message).toContain("on its node ClusterVolumePolicy guard allows 1");
    expect(namespace.scalingOf("v3")?.message).toContain("in the cluster ClusterVolumePolicy guard allows 2");
  });

  it("lets the next go when one has ended, whoever has waited longest first", async () => {
    const namespace = namespaceOf({ perCluster: 1 }, on("a"), on("b"), on("c"), on("d", 0.5));
    await namespace.decide(["v0"]);
    await namespace.decide(["v2"]);
    await namespace.decide(["v1"]);
    await carryOut(namespace, "v0");
    // The fullest, and first in the batch: its turn comes after those that waited before.
    namespace.use("v3", 0.95);
    await namespace.decide(["v3", "v1", "v2"]);
    expect(standing(namespace)).toEqual(["v2"]);
    await carryOut(namespace, "v2");
    await namespace.decide();
    expect(standing(namespace)).toEqual(["v1"]);
  });

  it("has a shrink wait for every extend that waits", async () => {
    const namespace = namespaceOf({ perCluster: 1 }, on("a"), on("b", 0.1), on("c", 0.5));
    for (let second = 0; second < 5; second += 1) namespace.tick();
    await namespace.decide(["v0"]);
    await namespace.decide(["v1"]);
    expect(namespace.scalingOf("v1")).toMatchObject({ reason: "OperationsAtLimit", rule: "shrink-below-20" });
    namespace.use("v2", 0.85);
    await namespace.decide(["v2"]);
    await carryOut(namespace, "v0");
    await namespace.decide(["v1", "v2"]);
    expect(standing(namespace)).toEqual(["v2"]);
  });

  it("goes on with those behind one that no longer wants its turn", async () => {
    const namespace = namespaceOf({ perCluster: 1 }, on("a"), on("b"), on("c"));
    await namespace.decide();
    await carryOut(namespace, "v0");
    namespace.use("v1", 0.5);
    await namespace.decide(["v1"]);
    await namespace.decide(["v2"]);
    expect(standing(namespace)).toEqual(["v2"]);
  });

  it("goes on with those behind one whose claim is gone", async () => {
    const namespace = namespaceOf({ perCluster: 1 }, on("a"), on("b"), on("c"));
    await namespace.decide();
    await carryOut(namespace, "v0");
    namespace.deleteClaim("v1");
    await namespace.decide(["v1"]);
    await namespace.decide(["v2"]);
    expect(standing(namespace)).toEqual(["v2"]);
  });

  it("never stops an extend for minAvailable, which others wait for", async () => {
    const namespace = namespaceOf({ perNode: 1, perCluster: 1 }, on("a"), on("a", 0.99), on("b", 0.99));
    await namespace.decide();
    expect(standing(namespace)).toEqual(["v1", "v2"]);
    expect(namespace.reasonOf("v0")).toBe("OperationsAtLimit");
  });

  it("counts what stands and was asked for by an earlier leader", async () => {
    const namespace = namespaceOf({ perCluster: 1 }, on("a"), on("b"));
    await namespace.decide(["v0"]);
    namespace.restart();
    await namespace.decide(["v1"]);
    expect(standing(namespace)).toEqual(["v0"]);
  });

  it("goes on after 10 minutes in which a node said nothing of what it was asked for", async () => {
    const namespace = namespaceOf({ perCluster: 1 }, on("a"), on("b"));
    await namespace.decide(["v0"]);
    namespace.watch();
    namespace.tick(590);
    namespace.use("v0", 0.5);
    await namespace.decide();
    expect(standing(namespace)).toEqual(["v0"]);
    namespace.tick(11);
    await namespace.decide(["v1"]);
    expect(standing(namespace)).toEqual(["v0", "v1"]);
  });

  property(
    "holds for rules in any order of decisions, ends and changes of the leader, and minAvailable always goes at once (I6)",
    { runs: 25, reaches: { "a volume that waits": 0.3, "as many as may": 0.3 } },
    [
      fc.integer({ min: 1, max: 2 }),
      fc.integer({ min: 1, max: 3 }),
      fc.array(
        fc.record({
          step: fc.constantFrom("fill", "fill", "fill", "overfill", "end", "end", "restart"),
          volume: fc.integer({ min: 0, max: 5 }),
        }),
        { minLength: 20, maxLength: 50 },
      ),
    ],
    async (reach, perNode, perCluster, steps) => {
      const volumes = Array.from({ length: 6 }, (_, index) => on(index % 2 === 0 ? "a" : "b", 0.5));
      const namespace = namespaceOf({ perNode, perCluster }, ...volumes);
      const byRule = (): string[] =>
        standing(namespace).filter((handle) => namespace.targetOf(handle)?.reason === "RuleFired");
      for (const { step, volume } of steps) {
        const handle = `v${volume}`;
        namespace.tick(2);
        if (step === "fill") namespace.use(handle, 0.85);
        if (step === "overfill") namespace.use(handle, 0.99);
        if (step === "end") await carryOut(namespace, handle);
        if (step === "restart") namespace.restart();
        namespace.watch();
        await namespace.decide([handle]);
        if (namespace.reasonOf(handle) === "OperationsAtLimit") reach("a volume that waits");
        const running = byRule();
        if (running.length === perCluster) reach("as many as may");
        expect(running.length).toBeLessThanOrEqual(perCluster);
        for (const parity of [0, 1])
          expect(running.filter((one) => Number(one.slice(1)) % 2 === parity).length).toBeLessThanOrEqual(perNode);
        if (step === "overfill")
          expect(parseQuantity(namespace.targetOf(handle)?.size ?? "0")).toBeGreaterThan(namespace.sizeBytes(handle));
      }
    },
  );
});
