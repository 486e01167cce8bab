// The engine's and a node's clock an hour and a day wrong, each at once and in the middle of things: the real engine, in memory. What an
// extend needs never waits for a clock, and nothing shrinks while two of them differ.
import { describe, expect, it } from "@jest/globals";
import { GIB } from "../../../../src/contracts/quantities/quantity.ts";
import { createEngineMetrics } from "../../../../src/policy-engine/metrics.ts";
import { BudgetedNamespace } from "../../../harness/budgeted-namespace.ts";
import { watchClaim } from "../../../harness/watched-claim.ts";

const metrics = createEngineMetrics(() => true);
const HOUR_MS = 3_600_000;
const STEPS: readonly [string, number][] = [
  ["an hour ahead", HOUR_MS],
  ["an hour behind", -HOUR_MS],
  ["a day ahead", 24 * HOUR_MS],
  ["a day behind", -24 * HOUR_MS],
];
const WHOSE = ["engine", "node"] as const;
type Whose = (typeof WHOSE)[number];
const CASES = WHOSE.flatMap((whose) => STEPS.map(([what, aheadMs]) => [whose, what, aheadMs] as const));

const oneVolume = (usedRatio: number): BudgetedNamespace =>
  new BudgetedNamespace(1000 * GIB, [{ sizeBytes: 10 * GIB, usedRatio }], metrics);

function setClock(namespace: BudgetedNamespace, whose: Whose, aheadMs: number): void {
  if (whose === "engine") namespace.setEngineClock(aheadMs);
  else namespace.setNodeClock(aheadMs);
  namespace.tick();
}

/** One extend from its decision to its end, as the engine hears of both. */
async function extend(namespace: BudgetedNamespace, usedRatio: number): Promise<void> {
  namespace.use("v0", usedRatio);
  await namespace.decide();
  namespace.nodeReachesTarget("v0");
  namespace.watch();
  namespace.tick();
}

describe.each(CASES)("with the clock of the %s %s", (whose, _what, aheadMs) => {
  it("a volume is granted what it may take in an emergency", async () => {
    const namespace = oneVolume(0.5);
    setClock(namespace, whose, aheadMs);
    await namespace.decide();
    expect(namespace.grantBytes("v0")).toBeGreaterThan(10 * GIB);
  });

  it("a volume that fills up is extended, once for each time", async () => {
    const namespace = oneVolume(0.5);
    setClock(namespace, whose, aheadMs);
    await extend(namespace, 0.85);
    expect(namespace.sizeBytes("v0") / GIB).toBeCloseTo(14.17, 2);
    await extend(namespace, 0.85);
    expect(namespace.sizeBytes("v0") / GIB).toBeCloseTo(20.07, 2);
  });

  it("a volume is extended that was when the clock was right, and again when it is set right", async () => {
    const namespace = oneVolume(0.5);
    await extend(namespace, 0.85);
    setClock(namespace, whose, aheadMs);
    await extend(namespace, 0.85);
    expect(namespace.sizeBytes("v0") / GIB).toBeCloseTo(20.07, 2);
    setClock(namespace, whose, 0);
    await extend(namespace, 0.85);
    expect(namespace.sizeBytes("v0") / GIB).toBeCloseTo(28.43, 2);
  });

  it("what has failed is tried again as soon as with the clock right", async () => {
    const namespace = oneVolume(0.85);
    setClock(namespace, whose, aheadMs);
    await namespace.decide();
    const first = namespace.targetOf("v0")?.decidedAt;
    namespace.nodeGivesTargetUp("v0");
    namespace.watch();
    namespace.tick();
    await namespace.decide();
    expect(namespace.reasonOf("v0")).toBe("CoolingDown");
    namespace.tick(11);
    await namespace.decide();
    expect(Date.parse(namespace.targetOf("v0")?.decidedAt ?? "")).toBeGreaterThan(Date.parse(first ?? ""));
  });

  it("a target that nobody acts on is asked for again after half a minute, and not before", async () => {
    const namespace = oneVolume(0.85);
    await namespace.decide();
    const first = namespace.targetOf("v0");
    setClock(namespace, whose, aheadMs);
    await namespace.decide();
    expect(namespace.targetOf("v0")).toEqual(first);
    namespace.tick(31);
    await namespace.decide();
    expect(namespace.targetOf("v0")?.decidedAt).not.toBe(first?.decidedAt);
  });

  it("what is told of a volume is told no later than with the clock right", async () => {
    const namespace = oneVolume(0.85);
    await namespace.decide();
    expect(namespace.reasonOf("v0")).toBe("RuleFired");
    setClock(namespace, whose, aheadMs);
    namespace.tick(4);
    await namespace.decide();
    expect(namespace.reasonOf("v0")).toBe("OperationInProgress");
  });

  it("what an engine finds that is started anew is no change of the future", async () => {
    const namespace = oneVolume(0.5);
    setClock(namespace, whose, aheadMs);
    await extend(namespace, 0.85);
    namespace.restart();
    namespace.tick();
    await extend(namespace, 0.85);
    expect(namespace.sizeBytes("v0") / GIB).toBeCloseTo(20.07, 2);
  });
});

describe.each(STEPS)("with the engine's clock set to %s", (_what, aheadMs) => {
  it("a grant that stands is dated anew: its node may have counted most of its life", async () => {
    const namespace = oneVolume(0.5);
    await namespace.decide();
    const before = namespace.grantExpiry("v0");
    setClock(namespace, "engine", aheadMs);
    namespace.watch();
    await namespace.decide();
    const isSoon = aheadMs === -HOUR_MS || Math.abs(aheadMs) === 24 * HOUR_MS;
    expect(namespace.grantExpiry("v0") !== before).toBe(isSoon);
    expect(namespace.grantBytes("v0")).toBeGreaterThan(10 * GIB);
  });
});

describe.each(STEPS)("a claim of another driver on a node whose clock is %s", (_what, aheadMs) => {
  it("is extended again as soon as its filesystem shows the first extend", async () => {
    const claim = watchClaim(metrics);
    claim.setNodeClock(aheadMs);
    await claim.decide(10, 0.9);
    claim.claimSays("12Gi", 12);
    await claim.decide(12, 0.9);
    expect(claim.targets.map(({ size }) => size)).toEqual(["12Gi", "14746Mi"]);
  });
});
