// What ceilings on rates hold, and what they never do: the counts are facts.
import { describe, expect, it } from "@jest/globals";
import { GIB } from "../../../../src/contracts/quantities/quantity.ts";
import { decide } from "../../../../src/policy-engine/decide/decide.ts";
import { sameConclusion } from "../../../../src/policy-engine/decide/plan.ts";
import type { OperationFacts, RateFacts } from "../../../../src/policy-engine/facts/facts.ts";
import { readCeilings } from "../../../../src/policy-engine/policies/ceilings.ts";
import { aVolume, NOW_MS, type VolumeShape } from "../../../builders/facts.ts";
import { aPolicy } from "../../../builders/policy.ts";

const HOUR_MS = 3_600_000;
const FULL: VolumeShape = { usedRatio: 0.85 };
const EMPTY: VolumeShape = { usedRatio: 0.1 };
const POLICY = aPolicy({ behavior: { shrink: { cooldown: "0s" } } });

/** Changes of the namespace, by how long before now they began. */
function changed(...agesMs: number[]): RateFacts {
  const newestFirst = agesMs.map((ageMs) => NOW_MS - ageMs).sort((a, b) => b - a);
  return { nthLastInNamespace: (n) => newestFirst[n - 1], cluster: operations(0), node: undefined };
}

/** So many run, and so many wait before it. */
function operations(running: number, extendsBefore = 0, shrinksBefore = 0): OperationFacts {
  const waitingBefore: OperationFacts["waitingBefore"] = (direction) =>
    direction === "extend" ? extendsBefore : extendsBefore + shrinksBefore;
  return { running, waitingBefore };
}

const ofTwo = readCeilings("guard", { max: "1Ti", changesPerHourPerNamespace: 2 });
const planOf = (shape: VolumeShape, rates: RateFacts | undefined, ceilings = ofTwo) =>
  decide(aVolume({ ...shape, facts: { ...shape.facts, rates } }), POLICY, ceilings);

describe("a namespace's ceiling on changes", () => {
  it("is not reported again with each change of another volume, which moves its time", () => {
    const before = planOf(FULL, changed(60_000, 1000, 2000));
    expect(sameConclusion(before, planOf(FULL, changed(1000, 2000, 100)))).toBe(true);
  });

  it.each([FULL, EMPTY])("holds what a rule asks for until one fewer counts: %j", (shape) => {
    expect(planOf(shape, changed(60_000, 1000, 2000))).toMatchObject({
      kind: "hold",
      reason: "TooManyChanges",
      nextEligibleMs: NOW_MS - 2000 + HOUR_MS,
      message: expect.stringContaining("ClusterVolumePolicy guard"),
    });
  });

  it.each([
    ["there were fewer", changed(1000)],
    ["the oldest that counts is an hour old", changed(1000, HOUR_MS)],
    ["nothing is counted", undefined],
  ])("holds nothing where %s", (_, rates) => {
    expect(planOf(FULL, rates).kind).toBe("extend");
    expect(planOf(EMPTY, rates).kind).toBe("shrink");
  });

  it("holds nothing where there is none", () => {
    expect(planOf(FULL, changed(1, 2, 3, 4), readCeilings("guard", { max: "1Ti" })).kind).toBe("extend");
  });

  it.each([
    ["BelowMinAvailable", { usedRatio: 0.999 }],
    ["BelowMinimum", { sizeBytes: GIB / 2, usedRatio: 0.5 }],
    ["RequestRaised", { usedRatio: 0.85, claim: { nominalBytes: 20 * GIB, raisedRequestBytes: 20 * GIB } }],
  ])("never holds an extend that is %s", (reason, shape: VolumeShape) => {
    expect(planOf(shape, changed(1, 2, 3))).toMatchObject({ kind: "extend", reason });
  });
});

describe("a ceiling on what a driver does to one volume in a day", () => {
  const ceilings = readCeilings("guard", {
    max: "1Ti",
    driverModifications: [
      { driver: "ebs.csi.aws.com", perDay: 4 },
      { driver: "other.example.com", perDay: 1 },
    ],
  });
  const optedIn = aPolicy({ claimBackend: "Enabled" });
  const expanded = (driver: string | undefined, ...agesMs: number[]): VolumeShape => ({
    ...FULL,
    claim: { backend: "claim", fsType: "ext4", driver },
    facts: { changes: { extendsAtMs: agesMs.map((ageMs) => NOW_MS - ageMs), shrinksAtMs: [] } },
  });
  const fourTimes = [20 * HOUR_MS, 15 * HOUR_MS, 10 * HOUR_MS, 5 * HOUR_MS];

  it("holds the one that its driver would refuse, until the oldest is a day old", () => {
    const plan = decide(aVolume(expanded("ebs.csi.aws.com", ...fourTimes)), optedIn, ceilings);
    expect(plan).toMatchObject({
      kind: "hold",
      reason: "TooManyChanges",
      nextEligibleMs: NOW_MS + 4 * HOUR_MS,
      message: expect.stringContaining("driver ebs.csi.aws.com expands it no more often, by ClusterVolumePolicy guard"),
    });
  });

  it.each([
    ["has done fewer", "ebs.csi.aws.com", fourTimes.slice(1)],
    ["has no ceiling", "block.example.com", fourTimes],
    ["is not known", undefined, fourTimes],
  ])("holds nothing where its driver %s", (_, driver, agesMs) => {
    expect(decide(aVolume(expanded(driver, ...agesMs)), optedIn, ceilings).kind).toBe("extend");
  });

  it("never holds an extend for minAvailable", () => {
    const shape = { ...expanded("ebs.csi.aws.com", ...fourTimes), usedRatio: 0.999 };
    expect(decide(aVolume(shape), optedIn, ceilings)).toMatchObject({ kind: "extend", reason: "BelowMinAvailable" });
  });
});

describe("a ceiling on operations that run at once", () => {
  const ofNode = readCeilings("guard", { max: "1Ti", concurrentOperations: { perNode: 2 } });
  const ofBoth = readCeilings("guard", { max: "1Ti", concurrentOperations: { perNode: 2, perCluster: 3 } });
  const running = (node: OperationFacts | undefined, cluster: OperationFacts): RateFacts => ({
    nthLastInNamespace: () => undefined,
    cluster,
    node,
  });

  it.each([
    ["its node has as many", running(operations(2), operations(2)), "node", 2],
    ["its node has one, and one waits before it", running(operations(1, 1), operations(1)), "node", 2],
    ["the cluster has as many", running(operations(0), operations(3)), "cluster", 3],
    ["the cluster has fewer, for which others wait", running(operations(0), operations(1, 2)), "cluster", 3],
    ["it is on no node, and the cluster has as many", running(undefined, operations(3)), "cluster", 3],
  ])("has a rule's change wait where %s", (_, rates, at, limit) => {
    for (const shape of [FULL, EMPTY])
      expect(planOf(shape, rates, ofBoth)).toMatchObject({
        kind: "hold",
        reason: "OperationsAtLimit",
        waits: { at, limit, direction: shape === FULL ? "extend" : "shrink" },
        message: expect.stringContaining("ClusterVolumePolicy guard"),
      });
  });

  it("has an extend go before the shrinks that wait", () => {
    const rates = running(operations(1, 0, 3), operations(1, 0, 3));
    expect(planOf(FULL, rates, ofBoth).kind).toBe("extend");
    expect(planOf(EMPTY, rates, ofBoth)).toMatchObject({ kind: "hold", reason: "OperationsAtLimit" });
  });

  it("has no volume wait for a place that it is not in, or that has no ceiling", () => {
    expect(planOf(FULL, running(undefined, operations(9)), ofNode).kind).toBe("extend");
    expect(planOf(FULL, undefined, ofBoth).kind).toBe("extend");
  });

  it("lets what is urgent go, however many run", () => {
    expect(planOf({ usedRatio: 0.999 }, running(operations(9), operations(9)), ofBoth)).toMatchObject({
      kind: "extend",
      reason: "BelowMinAvailable",
    });
  });
});
