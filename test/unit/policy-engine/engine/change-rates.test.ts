// A namespace's ceiling on changes holds whatever the engine, its caches and the nodes see first, and after a change of the leader (I6).
import { describe, expect, it } from "@jest/globals";
import fc from "fast-check";
import { GIB, parseQuantity } from "../../../../src/contracts/quantities/quantity.ts";
import { createEngineMetrics } from "../../../../src/policy-engine/metrics.ts";
import { NOW_MS } from "../../../builders/facts.ts";
import { aPolicy } from "../../../builders/policy.ts";
import { BudgetedNamespace, type VolumeOfNamespace } from "../../../harness/budgeted-namespace.ts";
import { property } from "../../../harness/property.ts";

const HOUR_S = 3600;
const metrics = createEngineMetrics(() => true);
const POLICY = aPolicy({
  limits: { min: "1Gi", max: "1000Gi", minAvailable: "512Mi" },
  rules: [{ name: "extend-at-80", action: "Extend", when: "volume.usedRatio >= 0.8", by: "10%" }],
});
const FULL: VolumeOfNamespace = { sizeBytes: 20 * GIB, usedRatio: 0.85 };
/** Under minAvailable. */
const OVERFULL: VolumeOfNamespace = { sizeBytes: 20 * GIB, usedRatio: 0.99 };

function namespaceOf(changesPerHourPerNamespace: number, ...volumes: VolumeOfNamespace[]): BudgetedNamespace {
  return new BudgetedNamespace(10_000 * GIB, volumes, metrics, POLICY, { changesPerHourPerNamespace });
}

/** Those that the engine has asked the nodes for. */
function targets(namespace: BudgetedNamespace): number {
  return namespace.writes.filter((write) => write.startsWith("target")).length;
}

/** What stands is carried out, and the engine sees it. */
function carryOut(namespace: BudgetedNamespace): void {
  for (const handle of namespace.handles) namespace.nodeReachesTarget(handle);
  namespace.watch();
}

describe("the ceiling on a namespace's changes in an hour", () => {
  it("lets as many of one batch go, the fullest first, and says to the others when they may", async () => {
    const namespace = namespaceOf(2, { ...FULL, usedRatio: 0.81 }, { ...FULL, usedRatio: 0.86 }, FULL);
    await namespace.decide();
    expect(namespace.writes.filter((write) => write.startsWith("target"))).toEqual(["target v1", "target v2"]);
    const scaling = namespace.scalingOf("v0");
    expect(scaling).toMatchObject({ plan: "hold", reason: "TooManyChanges", rule: "extend-at-80" });
    expect(scaling?.message).toContain("2 changes within 1h: the ceiling of ClusterVolumePolicy guard");
    expect(scaling?.nextEligibleTime).toBe(new Date(NOW_MS + HOUR_S * 1000).toISOString());
  });

  it("ends with the hour in which the changes began", async () => {
    const namespace = namespaceOf(1, FULL, FULL);
    await namespace.decide();
    namespace.tick();
    carryOut(namespace);
    namespace.tick(HOUR_S - 2);
    await namespace.decide();
    expect(targets(namespace)).toBe(1);
    namespace.tick(1);
    await namespace.decide();
    expect(targets(namespace)).toBe(2);
  });

  it("never stops an extend for minAvailable, which counts all the same", async () => {
    const namespace = namespaceOf(1, FULL, OVERFULL, OVERFULL);
    await namespace.decide();
    expect(namespace.writes.filter((write) => write.startsWith("target"))).toEqual(["target v1", "target v2"]);
    expect(namespace.reasonOf("v0")).toBe("TooManyChanges");
  });

  it("never stops an extend to a raised request, which counts all the same", async () => {
    const namespace = namespaceOf(1, FULL, { sizeBytes: GIB, usedRatio: 0.86, raisedRequestBytes: 2 * GIB });
    await namespace.decide();
    namespace.tick();
    expect(namespace.writes.filter((write) => write.startsWith("target"))).toEqual(["target v1"]);
    expect(namespace.reasonOf("v0")).toBe("TooManyChanges");
  });

  it("counts what a node has taken of its emergency grant", async () => {
    const namespace = namespaceOf(1, { ...FULL, usedRatio: 0.5, grantBytes: 30 * GIB }, { ...FULL, usedRatio: 0.5 });
    await namespace.decide();
    namespace.nodeSeesGrant("v0");
    namespace.nodeSpendsGrant("v0");
    namespace.watch();
    namespace.use("v1", 0.85);
    namespace.tick(2);
    await namespace.decide();
    expect(targets(namespace)).toBe(0);
    expect(namespace.reasonOf("v1")).toBe("TooManyChanges");
  });

  it("counts what an earlier leader has done, from the times in status and layout", async () => {
    const namespace = namespaceOf(3, FULL, FULL, FULL, FULL);
    await namespace.decide();
    expect(targets(namespace)).toBe(3);
    namespace.tick();
    carryOut(namespace);
    await namespace.decide();
    namespace.tick(60);
    namespace.restart();
    await namespace.decide();
    expect(targets(namespace)).toBe(3);
  });

  it("counts each of a volume's changes after a change of the leader, however fast they came", async () => {
    const namespace = namespaceOf(5, FULL, { ...FULL, usedRatio: 0.5 });
    for (let change = 0; change < 5; change += 1) {
      namespace.use("v0", 0.85);
      await namespace.decide(["v0"]);
      namespace.tick(2);
      carryOut(namespace);
      await namespace.decide(["v0"]);
    }
    expect(targets(namespace)).toBe(5);
    namespace.restart();
    namespace.use("v1", 0.85);
    await namespace.decide(["v1"]);
    expect(targets(namespace)).toBe(5);
    expect(namespace.reasonOf("v1")).toBe("TooManyChanges");
  });

  it("counts what an earlier leader has asked for and no node has begun", async () => {
    const namespace = namespaceOf(1, FULL, FULL);
    await namespace.decide(["v0"]);
    expect(targets(namespace)).toBe(1);
    namespace.restart();
    await namespace.decide(["v1"]);
    expect(targets(namespace)).toBe(1);
  });

  it("is not used up by a change that the API server has refused", async () => {
    const namespace = namespaceOf(1, { ...FULL, usedRatio: 0.86 }, FULL);
    namespace.answer("refused");
    await namespace.decide(["v0"]);
    namespace.answer("prompt");
    namespace.use("v0", 0.5);
    await namespace.decide(["v0"]);
    await namespace.decide(["v1"]);
    expect(namespace.targetOf("v1")).toBeDefined();
  });

  property(
    "holds for rules in any order of decisions, answers, ends and changes of the leader, and minAvailable always goes (I6)",
    { runs: 30, reaches: { "a volume that waits": 0.4, "one for minAvailable": 0.4 } },
    [
      fc.integer({ min: 1, max: 4 }),
      fc.array(
        fc.record({
          step: fc.constantFrom("fill", "fill", "overfill", "decide", "decide", "end", "watch", "restart", "tick"),
          volume: fc.integer({ min: 0, max: 4 }),
        }),
        { minLength: 20, maxLength: 60 },
      ),
    ],
    async (reach, limit, steps) => {
      const namespace = namespaceOf(limit, ...Array.from({ length: 5 }, () => ({ ...FULL, usedRatio: 0.5 })));
      // By a rule: what a node has carried out. A new leader asks for what stands once more, which is no second change.
      let carriedOut = 0;
      const stands = (handle: string): boolean =>
        namespace.targetOf(handle)?.reason === "RuleFired" && namespace.isStanding(handle);
      for (const { step, volume } of steps) {
        const handle = `v${volume}`;
        if (step === "fill") namespace.use(handle, 0.85);
        if (step === "overfill") {
          namespace.watch();
          namespace.use(handle, 0.99);
        }
        if (step === "end" && stands(handle)) carriedOut += 1;
        if (step === "end") namespace.nodeReachesTarget(handle);
        if (step === "watch") namespace.watch();
        if (step === "restart") namespace.restart();
        if (step === "tick") namespace.tick(5);
        await namespace.decide([handle]);
        if (namespace.targetOf(handle)?.reason === "BelowMinAvailable") reach("one for minAvailable");
        if (namespace.scalingOf(handle)?.reason === "TooManyChanges") reach("a volume that waits");
        if (step !== "overfill") continue;
        // Asked for now, or on its way already.
        expect(parseQuantity(namespace.targetOf(handle)?.size ?? "0")).toBeGreaterThan(namespace.sizeBytes(handle));
      }
      // All of it takes less than an hour.
      expect(carriedOut + namespace.handles.filter(stands).length).toBeLessThanOrEqual(limit);
    },
  );
});
