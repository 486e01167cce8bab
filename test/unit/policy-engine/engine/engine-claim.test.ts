// What the engine remembers of a claim of another driver between two decisions: nobody but the claim itself reports what became of
// a target.
import { describe, expect, it } from "@jest/globals";
import { KubeError } from "../../../../src/platform/kube/kube-error.ts";
import { createEngineMetrics } from "../../../../src/policy-engine/metrics.ts";
import { readCeilings } from "../../../../src/policy-engine/policies/ceilings.ts";
import { FOREIGN_DRIVER } from "../../../builders/ordinary-claim.ts";
import { type WatchedClaim, watchClaim } from "../../../harness/watched-claim.ts";

const metrics = createEngineMetrics(() => true);
const sizes = ({ targets }: WatchedClaim): string[] => targets.map(({ size }) => size);

/** Extended once from 10 to 12 GiB; its filesystem shows it. */
async function onceExtended(): Promise<WatchedClaim> {
  const claim = watchClaim(metrics);
  await claim.decide(10, 0.9);
  claim.claimSays("12Gi", 10);
  claim.claimSays("12Gi", 12);
  expect(await claim.decide(12, 0.75)).toBe("WithinBounds");
  return claim;
}

describe("a claim of another driver", () => {
  it("whose volume has grown is not extended before its filesystem has", async () => {
    const claim = watchClaim(metrics);
    await claim.decide(10, 0.9);
    claim.claimSays("12Gi", 12);
    expect(await claim.decide(10, 0.9)).toBe("MetricsInconsistent");
    expect(sizes(claim)).toEqual(["12Gi"]);
  });

  it("is left to another autoscaler that acts on its class", async () => {
    const claim = watchClaim(metrics);
    claim.annotateClass({ "trident.netapp.io/autogrowPolicy": "fast" });
    expect(await claim.decide(10, 0.9)).toBe("OtherAutoscaler");
    expect(sizes(claim)).toEqual([]);
  });

  it("is extended again after a target that could not be written", async () => {
    const claim = await onceExtended();
    claim.refuse(new KubeError("Invalid", 422, "the epoch falls"));
    await claim.decide(12, 0.9);
    claim.refuse(undefined);
    await claim.decide(12, 0.9);
    expect(sizes(claim)).toEqual(["12Gi", "14746Mi"]);
  });

  it("is extended again after a target that was set aside", async () => {
    const claim = await onceExtended();
    await claim.decide(12, 0.9);
    claim.wait(60);
    await claim.decide(12, 0.9);
    expect(sizes(claim)).toEqual(["12Gi", "14746Mi", "14746Mi"]);
  });

  it("is not extended more often in a day than its driver may be asked, but for minAvailable", async () => {
    const driverModifications = [{ driver: FOREIGN_DRIVER, perDay: 1 }];
    const claim = watchClaim(metrics, undefined, readCeilings("guard", { max: "1Ti", driverModifications }));
    await claim.decide(10, 0.9);
    claim.claimSays("12Gi", 10);
    claim.claimSays("12Gi", 12);
    claim.wait(23 * 3600);
    expect(await claim.decide(12, 0.9)).toBe("TooManyChanges");
    expect(sizes(claim)).toEqual(["12Gi"]);
    await claim.decide(12, 0.999);
    expect(sizes(claim)).toHaveLength(2);
  });

  it.each([
    ["a rule asks for", 0.9],
    ["a full disk needs", 0.999],
  ])("is asked less and less often for what %s and nobody carries out", async (_what, usedRatio) => {
    const claim = watchClaim(metrics);
    const reasons = new Set<string | undefined>();
    for (let second = 0; second < 1200; second += 1) reasons.add(await claim.decide(10, usedRatio));
    expect(reasons).toContain("CoolingDown");
    const waitedS = claim.targets.slice(1).map(({ decidedAt }, index) => {
      const before = claim.targets[index]?.decidedAt ?? "";
      return Math.round((Date.parse(decidedAt) - Date.parse(before)) / 1000);
    });
    expect(waitedS.slice(-2)).toEqual([190, 190]);
    expect(waitedS).toEqual([...waitedS].sort((a, b) => a - b));
  });
});
