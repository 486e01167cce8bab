// A namespace's budget holds whatever the engine, its caches and the nodes see first, and even if every grant is spent (I2).
import { describe, expect, it } from "@jest/globals";
import fc from "fast-check";
import { GIB } from "../../../../src/contracts/quantities/quantity.ts";
import { createEngineMetrics } from "../../../../src/policy-engine/metrics.ts";
import { ratio } from "../../../builders/any-facts.ts";
import { BudgetedNamespace, type VolumeOfNamespace } from "../../../harness/budgeted-namespace.ts";
import { property, type Reach } from "../../../harness/property.ts";

const metrics = createEngineMetrics(() => true);
const namespaceOf = (budgetGib: number, ...volumes: VolumeOfNamespace[]): BudgetedNamespace =>
  new BudgetedNamespace(budgetGib * GIB, volumes, metrics);
const sized = (sizeGib: number, usedRatio: number, more: Partial<VolumeOfNamespace> = {}): VolumeOfNamespace => ({
  sizeBytes: sizeGib * GIB,
  usedRatio,
  ...more,
});

/** Until nothing is on its way any more: seen by the engine, known to the nodes, carried out. */
async function settle(namespace: BudgetedNamespace): Promise<void> {
  for (let round = 0; round < 6; round += 1) {
    namespace.tick();
    await namespace.decide();
    for (const handle of namespace.handles) {
      namespace.nodeReachesTarget(handle);
      namespace.nodeSeesGrant(handle);
    }
    namespace.watch();
  }
}

describe("a namespace's budget", () => {
  it("is shared by two volumes that cross the threshold in one batch", async () => {
    const namespace = namespaceOf(100, sized(45, 0.85), sized(45, 0.85));
    await namespace.decide();
    expect(namespace.reachableBytes()).toBeLessThanOrEqual(100 * GIB);
    await settle(namespace);
    expect(namespace.handles.map((handle) => namespace.sizeBytes(handle) / GIB)).toEqual([55, 45]);
    expect(namespace.reasonOf("v1")).toBe("CeilingReached");
  });

  it("goes to the fuller of two that cross the threshold in one batch, whichever is named first", async () => {
    for (const [first, second] of [
      [0.82, 0.95],
      [0.95, 0.82],
    ] as const) {
      const namespace = namespaceOf(100, sized(45, first), sized(45, second));
      await settle(namespace);
      const fuller = first > second ? "v0" : "v1";
      expect(namespace.sizeBytes(fuller)).toBe(55 * GIB);
    }
  });

  it("is what all grants together stay within", async () => {
    const namespace = namespaceOf(100, ...Array.from({ length: 9 }, () => sized(10, 0.5)));
    await settle(namespace);
    expect(namespace.reachableBytes()).toBe(100 * GIB);
    for (const handle of namespace.handles) namespace.nodeSpendsGrant(handle);
    expect(namespace.reachableBytes()).toBe(100 * GIB);
  });

  it("gives each its whole grant while there is enough", async () => {
    const namespace = namespaceOf(100, sized(10, 0.5), sized(10, 0.7));
    await settle(namespace);
    expect(namespace.handles.map((handle) => namespace.grantBytes(handle))).toEqual([16214, 16214].map(inMib));
  });

  it("grants what it is short of to the volume nearest to full", async () => {
    const namespace = namespaceOf(35, sized(10, 0.2), sized(10, 0.7), sized(10, 0.4));
    await settle(namespace);
    expect(namespace.handles.map((handle) => namespace.grantBytes(handle) / GIB)).toEqual([0, 15, 0]);
  });

  it("moves a grant to a volume that becomes the nearest to full, and not before the other's node knows", async () => {
    const namespace = namespaceOf(25, sized(10, 0.2), sized(10, 0.4));
    await settle(namespace);
    expect(namespace.handles.map((handle) => namespace.grantBytes(handle) / GIB)).toEqual([0, 15]);
    namespace.use("v0", 0.6);
    for (let round = 0; round < 3; round += 1) {
      namespace.tick();
      await namespace.decide();
      namespace.watch();
    }
    expect(namespace.handles.map((handle) => namespace.grantBytes(handle) / GIB)).toEqual([0, 0]);
    namespace.nodeSeesGrant("v1");
    namespace.watch();
    await settle(namespace);
    expect(namespace.handles.map((handle) => namespace.grantBytes(handle) / GIB)).toEqual([15, 0]);
  });

  it("leaves a grant where it is while two volumes are about as full", async () => {
    const namespace = namespaceOf(25, sized(10, 0.41), sized(10, 0.4));
    await settle(namespace);
    for (const usedRatio of [0.42, 0.44, 0.39]) {
      namespace.use("v1", usedRatio);
      await settle(namespace);
      expect(namespace.grantBytes("v0")).toBe(15 * GIB);
    }
  });

  it("takes grants back for an extend that is due now, an unmounted volume's too", async () => {
    const namespace = namespaceOf(
      40,
      sized(10, 0.85),
      sized(10, 0.5, { grantBytes: 16 * GIB }),
      sized(10, 0.1, { grantBytes: 14 * GIB, isMounted: false }),
    );
    await settle(namespace);
    expect(namespace.sizeBytes("v0") / GIB).toBeGreaterThan(14);
    expect(namespace.grantBytes("v2")).toBe(0);
  });

  it("counts a grant from when it is written, before any cache shows it", async () => {
    const namespace = namespaceOf(25, sized(10, 0.2), sized(10, 0.4));
    await namespace.decide(["v0"]);
    expect(namespace.grantBytes("v0")).toBe(15 * GIB);
    await namespace.decide(["v1"]);
    expect(namespace.grantBytes("v1")).toBe(0);
    expect(namespace.reachableBytes()).toBe(25 * GIB);
  });

  // What is not mounted has no grant that would hide its target.
  it.each<[string, (namespace: BudgetedNamespace) => Promise<void> | void]>([
    ["that is being written", () => {}],
    ["that was written, and decided on again", (namespace) => namespace.decide(["v0"])],
    ["that is still not carried out a minute later", later],
    ["that another engine wrote", takeOver],
  ])("counts a target %s", async (_name, happens) => {
    const namespace = namespaceOf(28, sized(10, 0, { raisedRequestBytes: 18 * GIB, isMounted: false }), sized(10, 0.5));
    await namespace.decide(["v0"]);
    await happens(namespace);
    namespace.use("v1", 0.85);
    await namespace.decide(["v1"]);
    expect(namespace.reasonOf("v1")).toBe("CeilingReached");
    expect(namespace.reachableBytes()).toBe(28 * GIB);
  });

  it("counts a grant that was taken back before any cache showed it, while its node may spend it", async () => {
    const namespace = namespaceOf(25, sized(10, 0.4, { grantBytes: 12 * GIB }), sized(10, 0.2));
    await namespace.decide();
    expect(namespace.grantBytes("v0")).toBe(15 * GIB);
    namespace.nodeSeesGrant("v0");
    namespace.use("v1", 0.6);
    await namespace.decide();
    expect(namespace.grantBytes("v0")).toBe(0);
    // The caches go from the first of the three to the last.
    namespace.watch();
    namespace.tick(31);
    await namespace.decide();
    expect(namespace.reachableBytes()).toBeLessThanOrEqual(25 * GIB);
  });

  it("takes grants of fuller volumes back for a raised request", async () => {
    const raised = { raisedRequestBytes: 18 * GIB };
    const namespace = namespaceOf(40, sized(10, 0.1, raised), sized(10, 0.7, { grantBytes: 20 * GIB }), sized(10, 0.6));
    await settle(namespace);
    expect(namespace.sizeBytes("v0")).toBe(18 * GIB);
    expect(namespace.grantBytes("v1")).toBe(12 * GIB);
  });

  it("has room again once a target was given up and its grant taken back", async () => {
    const namespace = namespaceOf(100, sized(45, 0.85), sized(45, 0.5));
    await namespace.decide(["v0"]);
    namespace.nodeGivesTargetUp("v0");
    namespace.use("v0", 0.5);
    namespace.use("v1", 0.85);
    namespace.watch();
    await settle(namespace);
    expect(namespace.handles.map((handle) => namespace.sizeBytes(handle) / GIB)).toEqual([45, 55]);
  });
});

/** Nothing that was written is unseen for that long. */
function later(namespace: BudgetedNamespace): void {
  namespace.watch();
  namespace.tick(60);
}

/** What was taken back before its time is known to the nodes. */
function takeOver(namespace: BudgetedNamespace): void {
  for (const handle of namespace.handles) namespace.nodeSeesGrant(handle);
  namespace.restart();
}

const inMib = (mib: number): number => mib * 1024 * 1024;

const volume: fc.Arbitrary<VolumeOfNamespace> = fc
  .record({
    sizeGib: fc.integer({ min: 2, max: 30 }),
    usedRatio: ratio(0, 0.99),
    isMounted: fc.constantFrom(true, true, true, false),
    grantedGib: fc.constantFrom(0, 0, 0, 5),
  })
  .map(({ sizeGib, usedRatio, isMounted, grantedGib }) =>
    sized(sizeGib, usedRatio, {
      isMounted,
      ...(grantedGib === 0 ? {} : { grantBytes: (sizeGib + grantedGib) * GIB }),
    }),
  );
const volumes = fc.array(volume, { minLength: 2, maxLength: 6 });

type Step = (namespace: BudgetedNamespace) => void | Promise<void>;
const whichOf = fc.nat({ max: 5 });
const one = (act: (namespace: BudgetedNamespace, handle: string) => void | Promise<void>): fc.Arbitrary<Step> =>
  whichOf.map((index) => (namespace) => act(namespace, namespace.handles[index % namespace.handles.length] as string));
const step: fc.Arbitrary<Step> = fc.oneof(
  fc.constant<Step>((namespace) => namespace.decide()),
  one((namespace, handle) => namespace.decide([handle])),
  fc.constant<Step>((namespace) => namespace.watch()),
  fc.constant<Step>((namespace) => namespace.tick()),
  fc.constant<Step>(later),
  fc.constant<Step>(takeOver),
  one((namespace, handle) => namespace.nodeSeesGrant(handle)),
  one((namespace, handle) => namespace.nodeSpendsGrant(handle)),
  one((namespace, handle) => namespace.nodeReachesTarget(handle)),
  fc.tuple(whichOf, fc.oneof(ratio(0, 0.99), ratio(0.8, 0.99))).map(
    ([index, usedRatio]): Step =>
      (namespace) =>
        namespace.use(namespace.handles[index % namespace.handles.length] as string, usedRatio),
  ),
);

async function keepsWithin(
  reach: Reach<"a grant" | "an extend" | "a budget that is used up">,
  budgetGib: number,
  of: VolumeOfNamespace[],
  steps: Step[],
): Promise<void> {
  const namespace = namespaceOf(budgetGib, ...of);
  const limitBytes = Math.max(budgetGib * GIB, namespace.reachableBytes());
  for (const act of [...steps, (last: BudgetedNamespace) => settle(last)]) {
    await act(namespace);
    if (namespace.handles.some((handle) => namespace.grantBytes(handle) > 0)) reach("a grant");
    if (namespace.handles.some((handle) => namespace.targetOf(handle) !== undefined)) reach("an extend");
    if (namespace.reachableBytes() > 0.9 * limitBytes) reach("a budget that is used up");
    expect(namespace.reachableBytes()).toBeLessThanOrEqual(limitBytes);
  }
  for (const handle of namespace.handles) namespace.nodeSpendsGrant(handle);
  expect(namespace.reachableBytes()).toBeLessThanOrEqual(limitBytes);
  expect(namespace.lines.filter(({ level }) => level >= 50)).toEqual([]);
}

describe("a namespace's budget", () => {
  property(
    "holds through any history of decisions, delays, spent grants and volumes that fill up",
    { runs: 200, reaches: { "a grant": 0.3, "an extend": 0.2, "a budget that is used up": 0.1 } },
    [fc.integer({ min: 10, max: 200 }), volumes, fc.array(step, { maxLength: 20, size: "max" })],
    keepsWithin,
  );
});
