// What becomes of a target whose write ends other than well: one that may stand on the API server counts, one that does not is asked anew.
import { describe, expect, it } from "@jest/globals";
import { createEngineMetrics } from "../../../../src/policy-engine/metrics.ts";
import { GIB } from "../../../../src/units/quantity.ts";
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

describe("a grant", () => {
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
