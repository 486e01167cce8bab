// The invariants that a decision keeps for any facts whatever, good ones and nonsense.
import { describe, expect, it } from "@jest/globals";
import fc from "fast-check";
import { CHANGE_REASONS, HOLD_REASONS } from "../../../src/api/reasons.ts";
import { grantWithin, promisedBytes, type Stake, shareOf, wishFor } from "../../../src/policy-engine/budget.ts";
import { type Ceilings, NO_CEILINGS, readCeilings } from "../../../src/policy-engine/ceilings.ts";
import { compilePolicy } from "../../../src/policy-engine/compile-policy.ts";
import { decide } from "../../../src/policy-engine/decide.ts";
import { emergencyGrant } from "../../../src/policy-engine/emergency.ts";
import { explain } from "../../../src/policy-engine/explain.ts";
import type { Facts } from "../../../src/policy-engine/facts.ts";
import { nextExtendUsedBytes } from "../../../src/policy-engine/next-extend.ts";
import { mostBytes } from "../../../src/policy-engine/plan.ts";
import { PolicySet } from "../../../src/policy-engine/select-policy.ts";
import { GIB, MIB, parseQuantity } from "../../../src/units/quantity.ts";
import { aVolume, NOW_MS, steadyHistory } from "../../builders/facts.ts";
import { aPolicySpec, aVolumePolicy, EXTEND_AT_80, SHRINK_BELOW_30 } from "../../builders/policy.ts";

// Generous: thousands of decisions are made on a machine that does other things, too.
const RUNS = { numRuns: 2000 };
const MAX = "40Gi";
const SHRINK_TO_NOTHING = { name: "all", action: "Shrink", when: "volume.usedRatio < 0.5", to: "1Mi" } as const;
const EXTEND_BY_ALL = { name: "double", action: "Extend", when: "volume.usedRatio >= 0.6", by: "500%" } as const;

const policy = fc
  .record({
    rules: fc.subarray([EXTEND_AT_80, SHRINK_BELOW_30, SHRINK_TO_NOTHING, EXTEND_BY_ALL], { minLength: 1 }),
    min: fc.constantFrom(undefined, "1Gi", "8Gi"),
    minAvailable: fc.constantFrom(undefined, "1Gi"),
    extend: fc.constantFrom("Enforce" as const, "Recommend" as const),
    suspend: fc.constantFrom(false, false, true),
    onStaleMetrics: fc.constantFrom("Hold" as const, "ExtendOnly" as const),
    minStep: fc.constantFrom("1Mi", "1Gi"),
  })
  .map(({ rules, min, minAvailable, extend, suspend, onStaleMetrics, minStep }) =>
    compilePolicy(
      aVolumePolicy({
        rules: [...rules],
        suspend,
        onStaleMetrics,
        mode: { extend, shrink: "Enforce" },
        limits: { min, max: MAX, minAvailable },
        behavior: { extend: { minStep }, shrink: { minStep, cooldown: "1m" } },
      }),
    ),
  );

const ceilings: fc.Arbitrary<Ceilings> = fc.constantFrom(
  NO_CEILINGS,
  readCeilings("guard", { max: "20Gi" }),
  readCeilings("guard", { max: "1Ti", bytesPerNamespace: "30Gi" }),
);

/** Sensible facts: what a healthy volume may look like. */
const soundFacts: fc.Arbitrary<Facts> = fc
  .record({
    sizeMib: fc.integer({ min: 1024, max: 50_000 }),
    usedRatio: fc.double({ min: 0, max: 1, noNaN: true }),
    peakRatio: fc.double({ min: 0, max: 1, noNaN: true }),
    growth: fc.constantFrom(undefined, -MIB, 0, 60 * MIB, 400 * MIB),
    peakWrite: fc.constantFrom(undefined, 0, 60 * MIB, 2 * GIB),
    freeGib: fc.constantFrom(0, 1, 100),
    namespaceGib: fc.constantFrom(0, 20, 100),
    changedAgoMs: fc.constantFrom(undefined, 1000, 3_600_000),
    ageMs: fc.integer({ min: 0, max: 9000 }),
    merging: fc.constantFrom(undefined, undefined, { growthMib: 0, ratio: 0.6 }, { growthMib: 4096, ratio: 1 }),
  })
  .map((shape) =>
    aVolume({
      sizeBytes: shape.sizeMib * MIB,
      usedRatio: shape.usedRatio,
      history: steadyHistory(Math.round(Math.max(shape.peakRatio, shape.usedRatio) * shape.sizeMib * MIB)),
      reading: { sampledAtMs: NOW_MS - shape.ageMs },
      filesystem: {
        growthBytesPerSecond: shape.growth,
        peakWriteBytesPerSecond: shape.peakWrite,
        consolidation: shape.merging && {
          members: 1,
          growthBytes: shape.merging.growthMib * MIB,
          sizeBytes: Math.ceil(shape.sizeMib * shape.merging.ratio) * MIB,
          because: "a pod waits",
          underWay: false,
        },
      },
      facts: {
        node: { name: "node-a", freeBytes: shape.freeGib * GIB, ioUtilizationRatio: 0 },
        namespaceBytes: shape.sizeMib * MIB + shape.namespaceGib * GIB,
        changes: {
          extendsAtMs: shape.changedAgoMs === undefined ? [] : [NOW_MS - shape.changedAgoMs],
          shrinksAtMs: [],
        },
      },
    }),
  );

const wildNumber = fc.oneof(
  fc.constantFrom(Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY, -1, 0, 0.5, 2 ** 60, 10 * GIB),
  fc.double(),
  fc.integer({ min: 0, max: 20 * GIB }),
);

/** Facts with one to three figures replaced by nonsense. */
const damagedFacts: fc.Arbitrary<Facts> = fc
  .tuple(
    soundFacts,
    fc.array(
      fc.tuple(
        fc.constantFrom(
          "sampledAtMs",
          "capacityBytes",
          "availableBytes",
          "usedBytes",
          "inodesTotal",
          "inodesUsed",
          "sizeBytes",
          "growthBytesPerSecond",
          "peakWriteBytesPerSecond",
          "nominalBytes",
          "freeBytes",
          "namespaceBytes",
          "nowMs",
        ),
        wildNumber,
      ),
      { minLength: 1, maxLength: 3 },
    ),
  )
  .map(([facts, damages]) => damages.reduce((damaged, [field, value]) => damage(damaged, field, value), facts));

function damage(facts: Facts, field: string, value: number): Facts {
  const { claim, filesystem, node } = facts;
  const reading = filesystem.reading && { ...filesystem.reading };
  if (reading !== undefined && field in reading)
    return { ...facts, filesystem: { ...filesystem, reading: { ...reading, [field]: value } } };
  if (field in filesystem) return { ...facts, filesystem: { ...filesystem, [field]: value } };
  if (field in claim) return { ...facts, claim: { ...claim, [field]: value } };
  if (field === "freeBytes" && node !== undefined) return { ...facts, node: { ...node, freeBytes: value } };
  return { ...facts, [field]: value };
}

const anyFacts = fc.oneof(soundFacts, damagedFacts);

describe("decide, for any facts", () => {
  it("never changes a size on figures that are absent, stale, NaN, negative, from the future or contradictory (I5)", () => {
    const doubtful = fc.tuple(soundFacts, fc.constantFrom(...DOUBTS)).map(([facts, doubt]) => doubt(facts));
    fc.assert(
      fc.property(doubtful, policy, ceilings, (facts, compiled, bounds) => {
        const plan = decide(facts, compiled, bounds);
        expect(plan.kind === "hold" || plan.reason === "BelowMinimum").toBe(true);
      }),
      RUNS,
    );
  });

  it("never shrinks while Prometheus is down (I5)", () => {
    fc.assert(
      fc.property(soundFacts, policy, ceilings, (facts, compiled, bounds) => {
        expect(decide({ ...facts, metricsStale: true }, compiled, bounds).kind).not.toBe("shrink");
      }),
      RUNS,
    );
  });

  it("never shrinks under used + reserve, under the window's peak or under the minimum (I1)", () => {
    fc.assert(
      fc.property(anyFacts, policy, ceilings, (facts, compiled, bounds) => {
        const plan = decide(facts, compiled, bounds);
        if (plan.kind !== "shrink") return;
        const { reading, peakWriteBytesPerSecond: peakWrite = 0 } = facts.filesystem;
        const usedBytes = reading?.usedBytes ?? Number.NaN;
        const wantedBytes = compiled.limits.minAvailableBytes ?? 0.05 * (reading?.capacityBytes ?? Number.NaN);
        expect(plan.sizeBytes).toBeGreaterThanOrEqual(usedBytes + Math.max(wantedBytes, 256 * MIB, 2 * peakWrite));
        expect(plan.sizeBytes).toBeGreaterThanOrEqual(compiled.limits.minBytes ?? facts.claim.initialSizeBytes);
        if (plan.rule === SHRINK_BELOW_30.name)
          expect(plan.sizeBytes).toBeGreaterThanOrEqual(
            facts.filesystem.history.maxUsedBytes(86_400_000, NOW_MS) as number,
          );
        // Members are merged to the size that there is.
        expect(plan.sizeBytes).toBeLessThan(plan.fromBytes + (plan.members === undefined ? 0 : 1));
      }),
      RUNS,
    );
  });

  it("never extends over a maximum, a ceiling, a budget or the node's free space (I2, I10)", () => {
    fc.assert(
      fc.property(anyFacts, policy, ceilings, (facts, compiled, bounds) => {
        const plan = decide(facts, compiled, bounds);
        const largestBytes = mostBytes(plan);
        if (plan.kind === "hold" || largestBytes === 0 || plan.growthBytes === 0) return;
        const grownBytes = largestBytes - plan.fromBytes;
        expect(grownBytes).toBeGreaterThan(0);
        expect(largestBytes).toBeLessThanOrEqual(parseQuantity(MAX));
        expect(largestBytes).toBeLessThanOrEqual(bounds.maxBytes?.value ?? 10 * facts.claim.nominalBytes);
        expect(grownBytes).toBeLessThanOrEqual(facts.node?.freeBytes ?? 0);
        if (bounds.namespaceBytes !== undefined)
          expect(facts.namespaceBytes + grownBytes).toBeLessThanOrEqual(bounds.namespaceBytes.value);
      }),
      RUNS,
    );
  });

  it("never grants an emergency beyond what it would extend to itself (I2)", () => {
    fc.assert(
      fc.property(anyFacts, policy, ceilings, (facts, compiled, bounds) => {
        const grant = emergencyGrant(facts, compiled, bounds);
        if (grant === undefined) return;
        expect(compiled.mode.extend).toBe("Enforce");
        expect(grant.sizeBytes).toBeGreaterThan(facts.filesystem.sizeBytes);
        expect(grant.sizeBytes).toBeLessThanOrEqual(
          Math.min(parseQuantity(MAX), bounds.maxBytes?.value ?? Number.POSITIVE_INFINITY),
        );
        expect(grant.sizeBytes - facts.filesystem.sizeBytes).toBeLessThanOrEqual(facts.node?.freeBytes ?? 0);
      }),
      RUNS,
    );
  });

  it("keeps all sizes of a namespace within its budget, decided in one batch and with every grant spent (I2)", () => {
    const batch = fc.array(fc.tuple(soundFacts, policy, fc.constantFrom(0, 0, GIB)), { minLength: 2, maxLength: 6 });
    fc.assert(
      fc.property(batch, fc.integer({ min: 1, max: 300 }), (volumes, budgetGib) => {
        const budgetBytes = budgetGib * GIB;
        const stakes = volumes.map(([{ filesystem }, , grantedBytes], index) =>
          stakeOf(index, filesystem, grantedBytes),
        );
        const limitBytes = Math.max(budgetBytes, allPromised(stakes));
        const bounds = { ...NO_CEILINGS, namespaceBytes: { value: budgetBytes, policy: "guard" } };
        const decided = volumes.map(([facts, compiled], index) => {
          const stake = stakes[index] as Stake;
          const othersBytes = allPromised(stakes) - promisedBytes(stake);
          const shared = { ...facts, namespaceBytes: facts.filesystem.sizeBytes + othersBytes };
          const plan = decide(shared, compiled, bounds);
          const wish = wishFor(shared, compiled, bounds, plan);
          const takenBytes = Math.max(mostBytes(plan), stake.takenBytes);
          stakes[index] = { ...stake, ...wish, takenBytes };
          return { shared, grant: wish?.grant };
        });
        expect(allPromised(stakes)).toBeLessThanOrEqual(limitBytes);
        for (const [index, { shared, grant }] of decided.entries()) {
          const stake = stakes[index] as Stake;
          const given = grantWithin(grant, shared, shareOf(stake, stakes, budgetBytes));
          // What it held before it may still spend.
          stakes[index] = { ...stake, grantedBytes: Math.max(stake.grantedBytes, given?.sizeBytes ?? 0) };
        }
        expect(allPromised(stakes)).toBeLessThanOrEqual(limitBytes);
      }),
      RUNS,
    );
  });

  it("makes at most 60 changes an hour that are no emergency (I6)", () => {
    fc.assert(
      fc.property(soundFacts, policy, ceilings, fc.integer({ min: 60, max: 200 }), (facts, compiled, bounds, count) => {
        const extendsAtMs = Array.from({ length: count }, (_, i) => NOW_MS - (count - i) * 1000);
        const plan = decide({ ...facts, changes: { extendsAtMs, shrinksAtMs: [] } }, compiled, bounds);
        expect(plan.kind === "hold" || plan.reason === "BelowMinAvailable" || plan.reason === "BelowMinimum").toBe(
          true,
        );
      }),
      RUNS,
    );
  });

  it("always gives a public reason and a message, never throws, and says the same twice (I9)", () => {
    fc.assert(
      fc.property(anyFacts, fc.option(policy, { nil: undefined }), ceilings, (facts, compiled, bounds) => {
        const plan = decide(facts, compiled, bounds);
        const reasons: readonly string[] = plan.kind === "hold" ? HOLD_REASONS : CHANGE_REASONS;
        expect(reasons).toContain(plan.reason);
        expect(plan.message).not.toBe("");
        expect(decide(facts, compiled, bounds)).toEqual(plan);
        expect(explain(facts, compiled, bounds).plan).toEqual(plan);
      }),
      RUNS,
    );
  });

  it("names a next extend between what is used and minAvailable's crossing", () => {
    fc.assert(
      fc.property(soundFacts, policy, ceilings, (facts, compiled, bounds) => {
        const nextBytes = nextExtendUsedBytes(facts, compiled, bounds);
        if (nextBytes === undefined) return;
        expect(nextBytes).toBeLessThanOrEqual(facts.filesystem.reading?.capacityBytes ?? 0);
        expect(nextBytes).toBeGreaterThanOrEqual(0);
      }),
      RUNS,
    );
  });
});

describe("selection", () => {
  it("never lets a namespaced policy decide a claim of another namespace (I10)", () => {
    const namespace = fc.constantFrom("shop", "pay", "web");
    fc.assert(
      fc.property(fc.array(fc.tuple(namespace, fc.integer({ min: -2, max: 2 }))), namespace, (made, of) => {
        const policies = made.map(([where, priority], i) =>
          compilePolicy(aVolumePolicy({ ...aPolicySpec(), priority }, { name: `p${i}`, namespace: where })),
        );
        const { policy: selected } = new PolicySet(policies, []).select(
          { namespace: of, labels: {}, storageClassName: "any" },
          {},
        );
        expect(selected?.selection.namespace ?? of).toBe(of);
        expect(selected === undefined).toBe(!made.some(([where]) => where === of));
      }),
    );
  });
});

function stakeOf(index: number, { sizeBytes }: Facts["filesystem"], grantedBytes: number): Stake {
  const granted = grantedBytes === 0 ? 0 : sizeBytes + grantedBytes;
  return { handle: `v${index}`, takenBytes: sizeBytes, grantedBytes: granted, wishedBytes: 0, urgency: 0 };
}

function allPromised(stakes: readonly Stake[]): number {
  return stakes.reduce((sum, stake) => sum + promisedBytes(stake), 0);
}

type Reading = NonNullable<Facts["filesystem"]["reading"]>;

function withReading(change: (reading: Reading) => Partial<Reading> | undefined) {
  return (facts: Facts): Facts => {
    const { reading } = facts.filesystem;
    const changed = reading && change(reading);
    return {
      ...facts,
      filesystem: { ...facts.filesystem, reading: reading && changed && { ...reading, ...changed } },
    };
  };
}

const DOUBTS = [
  withReading(() => undefined),
  withReading(() => ({ usedBytes: Number.NaN })),
  withReading(() => ({ capacityBytes: Number.NaN })),
  withReading(() => ({ availableBytes: -1 })),
  withReading(({ usedBytes }) => ({ usedBytes: usedBytes + 1 })),
  withReading(() => ({ sampledAtMs: NOW_MS + 3_600_000 })),
  withReading(() => ({ sampledAtMs: NOW_MS - 3_600_000 })),
  withReading(() => ({ sampledAtMs: Number.NaN })),
  withReading(() => ({ capacityBytes: 0, usedBytes: 0, availableBytes: 0 })),
  withReading(({ capacityBytes, usedBytes }) => ({
    capacityBytes: capacityBytes * 2,
    availableBytes: capacityBytes * 2 - usedBytes,
  })),
  (facts: Facts): Facts => ({
    ...facts,
    filesystem: {
      ...facts.filesystem,
      lastOperation: {
        kind: "Shrink",
        outcome: "Succeeded",
        endedAtMs: NOW_MS,
        reason: undefined,
        floorBytes: undefined,
      },
    },
  }),
];
