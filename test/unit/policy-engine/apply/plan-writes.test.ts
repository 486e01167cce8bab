// What becomes of a target whose write ends other than well: one that may stand on the API server counts, one that does not is asked anew.
import { describe, expect, it } from "@jest/globals";
import { GIB } from "../../../../src/contracts/quantities/quantity.ts";
import { createEngineMetrics } from "../../../../src/policy-engine/metrics.ts";
import { readApproval } from "../../../../src/policy-engine/policies/approvals.ts";
import { anApproval } from "../../../builders/approval.ts";
import { aPolicy } from "../../../builders/policy.ts";
import { BudgetedNamespace } from "../../../harness/budgeted-namespace.ts";

const metrics = createEngineMetrics(() => true);
const aFullVolume = (): BudgetedNamespace =>
  new BudgetedNamespace(1000 * GIB, [{ sizeBytes: 10 * GIB, usedRatio: 0.85 }], metrics);

/** The volume is fuller, so that whatever is decided anew asks for more than before. */
async function decideFuller(namespace: BudgetedNamespace, seconds: number): Promise<void> {
  namespace.tick(seconds);
  namespace.use("v0", 0.9);
  await namespace.decide();
}

describe("a target", () => {
  it("that was written without an answer counts as under way: no second one is asked for", async () => {
    const namespace = aFullVolume();
    namespace.answer("lost");
    await namespace.decide();
    const first = namespace.targetOf("v0");
    expect(first).toBeDefined();
    namespace.answer("prompt");
    await decideFuller(namespace, 1);
    expect(namespace.targetOf("v0")).toEqual(first);
    expect(namespace.reasonOf("v0")).toBe("OperationInProgress");
  });

  it("that was written without an answer, and that nobody acts on, is asked for again half a minute later", async () => {
    const namespace = aFullVolume();
    namespace.answer("lost");
    await namespace.decide();
    const first = namespace.targetOf("v0");
    namespace.answer("prompt");
    await decideFuller(namespace, 31);
    expect(namespace.targetOf("v0")?.decidedAt).not.toBe(first?.decidedAt);
  });

  it("that was refused is not under way: it is asked for again at once", async () => {
    const namespace = aFullVolume();
    namespace.answer("refused");
    await namespace.decide();
    expect(namespace.targetOf("v0")).toBeUndefined();
    namespace.answer("prompt");
    await decideFuller(namespace, 1);
    expect(namespace.targetOf("v0")).toMatchObject({ size: "15Gi", from: "10Gi" });
  });

  it("is not written for a claim of the same name that was made anew", async () => {
    const namespace = aFullVolume();
    namespace.remakeClaim("v0");
    await namespace.decide();
    expect(namespace.targetOf("v0")).toBeUndefined();
    expect(namespace.grantBytes("v0")).toBe(0);
  });
});

describe("a plan that waits for an approval", () => {
  const APPROVING = aPolicy({
    limits: { min: "1Gi", max: "1000Gi", minAvailable: "512Mi" },
    mode: { extend: "Approve" },
    rules: [{ name: "extend-at-80", action: "Extend", when: "volume.usedRatio >= 0.8", targetUsed: "60%" }],
  });
  const moreIsUsed = async (namespace: BudgetedNamespace): Promise<string | undefined> => {
    namespace.tick(2);
    namespace.use("v0", 0.905);
    await namespace.decide();
    return namespace.scalingOf("v0")?.message;
  };
  const waiting = async (): Promise<BudgetedNamespace> => {
    const volume = { sizeBytes: 10 * GIB, usedRatio: 0.89 };
    const namespace = new BudgetedNamespace(1000 * GIB, [volume], metrics, APPROVING);
    await namespace.decide();
    expect(namespace.scalingOf("v0")?.message).toContain("notAbove: 15Gi");
    return namespace;
  };

  it("says another bound at once where what was approved falls short by a percent", async () => {
    const namespace = await waiting();
    const approved = readApproval(anApproval("ok", { notAbove: "15Gi" }));
    namespace.approvals = approved === undefined ? [] : [approved];
    expect(await moreIsUsed(namespace)).toContain("notAbove: 16Gi");
  });

  it("is not written again for a percent while none has approved anything", async () => {
    expect(await moreIsUsed(await waiting())).toContain("notAbove: 15Gi");
  });
});

describe("a change that others' changes leave no room for in this second", () => {
  const extended = { size: "14507Mi", from: "10Gi" };

  it("is asked for again by itself, and says so in a metric", async () => {
    const namespace = aFullVolume();
    namespace.spendRate(true);
    await namespace.decide();
    expect(namespace.targetOf("v0")).toBeUndefined();
    const { values } = await metrics.refusedWrites.get();
    expect(values.find(({ labels }) => labels.reason === "OwnRate")?.value).toBeGreaterThan(0);
    namespace.spendRate(false);
    await namespace.turnsCome();
    expect(namespace.targetOf("v0")).toMatchObject(extended);
  });

  it("is written all the same where its filesystem is nearly full", async () => {
    const namespace = aFullVolume();
    namespace.use("v0", 0.98);
    namespace.spendRate(true);
    await namespace.decide();
    expect(namespace.targetOf("v0")).toMatchObject({ from: "10Gi", reason: "BelowMinAvailable" });
  });
});

describe("an extend", () => {
  /** As large as its policy lets it be, and fuller than its rule lets it be each time. */
  const extend = async (namespace: BudgetedNamespace): Promise<void> => {
    namespace.use("v0", 0.85);
    await namespace.decide();
    namespace.watch();
    namespace.nodeReachesTarget("v0");
    namespace.use("v0", 0.5);
    namespace.watch();
    await namespace.decide();
    namespace.watch();
    namespace.tick(2);
    await namespace.decide();
    namespace.watch();
  };
  const aQuietVolume = async (): Promise<BudgetedNamespace> => {
    const namespace = new BudgetedNamespace(1000 * GIB, [{ sizeBytes: 10 * GIB, usedRatio: 0.5 }], metrics);
    await namespace.decide();
    namespace.watch();
    expect(namespace.reasonOf("v0")).toBe("WithinBounds");
    namespace.writes.length = 0;
    return namespace;
  };

  it("that is over soon is its target, which says why, and the next grant", async () => {
    const namespace = await aQuietVolume();
    await extend(namespace);
    expect(namespace.sizeBytes("v0")).toBeGreaterThan(10 * GIB);
    expect(namespace.writes).toEqual(["target v0", "grant v0"]);
    const target = namespace.targetOf("v0");
    expect(target).toMatchObject({ policy: "shop/default", reason: "RuleFired" });
    expect(target?.message).toContain("extend from 10Gi to");
  });

  it("is reported by itself where it takes long", async () => {
    const namespace = await aQuietVolume();
    namespace.use("v0", 0.85);
    await namespace.decide();
    namespace.watch();
    namespace.tick(2);
    await namespace.decide();
    expect(namespace.writes).toEqual(["target v0"]);
    namespace.tick(2);
    await namespace.decide();
    expect(namespace.writes).toEqual(["target v0", "status v0"]);
    expect(namespace.reasonOf("v0")).toBe("OperationInProgress");
  });

  it("is reported with those before it once there are four, so that the next leader knows how many there were", async () => {
    const namespace = await aQuietVolume();
    for (let count = 0; count < 4; count += 1) await extend(namespace);
    expect(namespace.writes.filter((write) => write === "status v0")).toHaveLength(1);
    expect(namespace.extendsReported("v0")).toBe(4);
  });
});

describe("a grant", () => {
  it("is not written again because the cache does not show it yet", async () => {
    const namespace = aFullVolume();
    namespace.use("v0", 0.5);
    await namespace.decide();
    namespace.tick(1);
    await namespace.decide();
    expect(namespace.writes.filter((write) => write === "grant v0")).toHaveLength(1);
  });

  it("that is on its way while its target is refused is not overtaken: what is asked for meanwhile is decided after it", async () => {
    const namespace = aFullVolume();
    namespace.holdGrants();
    namespace.answer("refused");
    await namespace.evaluate();
    namespace.answer("prompt");
    namespace.use("v0", 0.9);
    await namespace.evaluate();
    expect(namespace.grantsUnderWay()).toBe(1);
    expect(namespace.targetOf("v0")).toBeUndefined();
    await namespace.releaseGrants();
    expect(namespace.targetOf("v0")).toMatchObject({ size: "15Gi", from: "10Gi" });
  });
});
