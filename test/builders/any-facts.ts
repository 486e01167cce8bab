// Facts, policies and ceilings as random values: sound ones, those by which something is due, and those in which something cannot be
// believed. A property that wants changes draws from what is due, or it would see hardly any.
import fc from "fast-check";
import { GIB, MIB } from "../../src/contracts/quantities/quantity.ts";
import type { Facts, LastOperationFacts, ReceivedReading } from "../../src/policy-engine/facts/facts.ts";
import { type Ceilings, NO_CEILINGS, readCeilings } from "../../src/policy-engine/policies/ceilings.ts";
import { compilePolicy } from "../../src/policy-engine/policies/compile-policy.ts";
import type { CompiledPolicy } from "../../src/policy-engine/policies/compiled-policy.ts";
import { aVolume, NOW_MS, steadyHistory } from "./facts.ts";
import { aVolumePolicy, EXTEND_AT_80, SHRINK_BELOW_30 } from "./policy.ts";

/** limits.max of every policy. */
export const MAX = "40Gi";
const SHRINK_TO_NOTHING = { name: "all", action: "Shrink", when: "volume.usedRatio < 0.5", to: "1Mi" } as const;
const EXTEND_BY_ALL = { name: "double", action: "Extend", when: "volume.usedRatio >= 0.6", by: "500%" } as const;
const RULES = [EXTEND_AT_80, SHRINK_BELOW_30, SHRINK_TO_NOTHING, EXTEND_BY_ALL];

type PolicyRanges = {
  readonly rules: fc.Arbitrary<(typeof RULES)[number][]>;
  readonly extend: fc.Arbitrary<"Enforce" | "Recommend">;
  readonly suspend: fc.Arbitrary<boolean>;
};

function policyOf(ranges: PolicyRanges): fc.Arbitrary<CompiledPolicy> {
  return fc
    .record({
      ...ranges,
      // One that is no whole MiB as well: sizes are.
      min: fc.constantFrom(undefined, "1Gi", "2000000001", "8Gi"),
      minAvailable: fc.constantFrom(undefined, "1Gi"),
      onStaleMetrics: fc.constantFrom("Hold" as const, "ExtendOnly" as const),
      minStep: fc.constantFrom("1Mi", "1Gi"),
    })
    .map(({ rules, extend, suspend, min, minAvailable, onStaleMetrics, minStep }) =>
      compilePolicy(
        aVolumePolicy({
          rules,
          suspend,
          onStaleMetrics,
          mode: { extend, shrink: "Enforce" },
          limits: { min, max: MAX, minAvailable },
          behavior: { extend: { minStep }, shrink: { minStep, cooldown: "1m" } },
        }),
      ),
    );
}

const anyPolicy = policyOf({
  rules: fc.subarray(RULES, { minLength: 1 }),
  extend: fc.constantFrom("Enforce" as const, "Recommend" as const),
  suspend: fc.constantFrom(false, false, true),
});

/** One that acts, on full volumes and on empty ones. */
export const actingPolicy = policyOf({
  rules: fc.constantFrom([EXTEND_AT_80, SHRINK_BELOW_30], [EXTEND_BY_ALL, SHRINK_TO_NOTHING], RULES),
  extend: fc.constant("Enforce" as const),
  suspend: fc.constant(false),
});

export const anyCeilings: fc.Arbitrary<Ceilings> = fc.oneof(
  fc.constantFrom(NO_CEILINGS, readCeilings("guard", { max: "20Gi" })),
  fc
    .integer({ min: 10, max: 200 })
    .map((budgetGib) => readCeilings("guard", { max: "1Ti", bytesPerNamespace: `${budgetGib}Gi` })),
);

interface FactsRanges {
  readonly sizeMib: fc.Arbitrary<number>;
  readonly usedRatio: fc.Arbitrary<number>;
  readonly peakRatio: fc.Arbitrary<number>;
  readonly growth: fc.Arbitrary<number | undefined>;
  readonly freeGib: fc.Arbitrary<number>;
  readonly changedAgoMs: fc.Arbitrary<number | undefined>;
}

/** Evenly; fc.double draws from all doubles, of which nearly all are next to 0. */
export function ratio(min: number, max: number): fc.Arbitrary<number> {
  return fc.integer({ min: 0, max: 1000 }).map((thousandths) => min + ((max - min) * thousandths) / 1000);
}

function factsOf(ranges: FactsRanges): fc.Arbitrary<Facts> {
  return fc
    .record({
      ...ranges,
      peakWrite: fc.constantFrom(undefined, 0, 60 * MIB, 2 * GIB),
      othersGib: fc.constantFrom(0, 20, 100),
      ageMs: fc.integer({ min: 0, max: 9000 }),
      lastOperation: fc.constantFrom(undefined, "Extend" as const, "Shrink" as const),
      merging: fc.constantFrom(undefined, undefined, { growthMib: 0, ratio: 0.6 }, { growthMib: 4096, ratio: 1 }),
    })
    .map((shape) =>
      aVolume({
        sizeBytes: shape.sizeMib * MIB,
        usedRatio: shape.usedRatio,
        history: steadyHistory(Math.round(Math.max(shape.peakRatio, shape.usedRatio) * shape.sizeMib * MIB)),
        reading: {
          takenMs: NOW_MS - shape.ageMs,
          growthBytesPerSecond: shape.growth,
          peakWriteBytesPerSecond: shape.peakWrite,
        },
        filesystem: {
          lastOperation: shape.lastOperation && endedAt(NOW_MS - 3_600_000, shape.lastOperation),
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
          namespaceBytes: shape.sizeMib * MIB + shape.othersGib * GIB,
          changes: {
            extendsAtMs: shape.changedAgoMs === undefined ? [] : [NOW_MS - shape.changedAgoMs],
            shrinksAtMs: [],
          },
        },
      }),
    );
}

/** Sensible facts: what a healthy volume may look like. */
export const soundFacts = factsOf({
  sizeMib: fc.integer({ min: 1024, max: 50_000 }),
  usedRatio: ratio(0, 1),
  peakRatio: ratio(0, 1),
  growth: fc.constantFrom(undefined, -MIB, 0, 60 * MIB, 400 * MIB),
  freeGib: fc.constantFrom(0, 1, 100, 100),
  changedAgoMs: fc.constantFrom(undefined, 1000, 3_600_000),
});

/** Of a volume that is full, and far from its maximum. */
export const fullFacts = factsOf({
  sizeMib: fc.integer({ min: 1024, max: 30_000 }),
  usedRatio: ratio(0.8, 1),
  peakRatio: ratio(0.8, 1),
  growth: fc.constantFrom(undefined, 0, 60 * MIB),
  freeGib: fc.constantFrom(1, 4, 100, 100),
  changedAgoMs: fc.constantFrom(undefined, 3_600_000),
});

/** Of a volume that is empty, was so for long, and is far from its minimum. */
export const emptyFacts = factsOf({
  sizeMib: fc.integer({ min: 12_000, max: 50_000 }),
  usedRatio: ratio(0, 0.2),
  peakRatio: ratio(0, 0.25),
  growth: fc.constantFrom(undefined, -MIB, 0),
  freeGib: fc.constantFrom(0, 4, 100),
  changedAgoMs: fc.constantFrom(undefined, 3_600_000),
});

export const dueFacts = fc.oneof(fullFacts, emptyFacts);

const wildNumber = fc.oneof(
  fc.constantFrom(Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY, -1, 0, 0.5, 2 ** 60, 10 * GIB),
  fc.double(),
  fc.integer({ min: 0, max: 20 * GIB }),
);

const DAMAGED_FIELDS = [
  "takenMs",
  "aheadMs",
  "capacityBytes",
  "availableBytes",
  "usedBytes",
  "inodesTotal",
  "inodesUsed",
  "sizeBytes",
  "growthBytesPerSecond",
  "peakWriteBytesPerSecond",
  "endedAtMs",
  "nominalBytes",
  "freeBytes",
  "namespaceBytes",
  "nowMs",
  "monotonicMs",
] as const;

/** Facts with one to three figures replaced by nonsense. */
const damagedFacts: fc.Arbitrary<Facts> = fc
  .tuple(
    fc.oneof(soundFacts, dueFacts),
    fc.array(fc.tuple(fc.constantFrom(...DAMAGED_FIELDS), wildNumber), { minLength: 1, maxLength: 3 }),
  )
  .map(([facts, damages]) => damages.reduce((damaged, [field, value]) => damage(damaged, field, value), facts));

function damage(facts: Facts, field: (typeof DAMAGED_FIELDS)[number], value: number): Facts {
  const { claim, filesystem, node } = facts;
  const reading = filesystem.reading && { ...filesystem.reading };
  if (reading !== undefined && field in reading)
    return { ...facts, filesystem: { ...filesystem, reading: { ...reading, [field]: value } } };
  if (field === "endedAtMs") return { ...facts, filesystem: { ...filesystem, lastOperation: endedAt(value) } };
  if (field in filesystem) return { ...facts, filesystem: { ...filesystem, [field]: value } };
  if (field in claim) return { ...facts, claim: { ...claim, [field]: value } };
  if (field === "freeBytes" && node !== undefined) return { ...facts, node: { ...node, freeBytes: value } };
  return { ...facts, [field]: value };
}

/** Half of them due, and all else as well. */
export const mixedFacts = fc.oneof(dueFacts, dueFacts, soundFacts, damagedFacts);
export const mixedPolicy = fc.oneof(actingPolicy, actingPolicy, anyPolicy);

export function endedAt(endedAtMs: number, kind: LastOperationFacts["kind"] = "Extend"): LastOperationFacts {
  return { kind, outcome: "Succeeded", endedAtMs, reason: undefined, floorBytes: undefined };
}

/** What makes facts doubtful. */
export type Doubting = (facts: Facts) => Facts;

function withReading(change: (reading: ReceivedReading) => Partial<ReceivedReading> | undefined): Doubting {
  return (facts) => {
    const { reading } = facts.filesystem;
    const changed = reading && change(reading);
    return {
      ...facts,
      filesystem: { ...facts.filesystem, reading: reading && changed && { ...reading, ...changed } },
    };
  };
}

function withLastOperation(endedAtMs: (reading: ReceivedReading | undefined) => number): Doubting {
  return (facts) => {
    const { filesystem } = facts;
    return { ...facts, filesystem: { ...filesystem, lastOperation: endedAt(endedAtMs(filesystem.reading)) } };
  };
}

/** Doubts about the figures by themselves. */
export const FIGURES_IN_DOUBT: readonly Doubting[] = [
  withReading(() => undefined),
  withReading(() => ({ usedBytes: Number.NaN })),
  withReading(() => ({ capacityBytes: Number.NaN })),
  withReading(() => ({ availableBytes: -1 })),
  withReading(({ usedBytes }) => ({ usedBytes: usedBytes + 1 })),
  withReading(() => ({ takenMs: NOW_MS + 3_600_000 })),
  withReading(() => ({ takenMs: NOW_MS - 3_600_000 })),
  withReading(() => ({ takenMs: Number.NaN })),
  withReading(() => ({ capacityBytes: 0, usedBytes: 0, availableBytes: 0 })),
];

/** Doubts about what they are figures of: another size, or a time when the last operation had not ended. */
export const ORDER_IN_DOUBT: readonly Doubting[] = [
  withReading(({ capacityBytes, usedBytes }) => ({
    capacityBytes: capacityBytes * 2,
    availableBytes: capacityBytes * 2 - usedBytes,
  })),
  withLastOperation(() => NOW_MS),
  withLastOperation((reading) => reading?.takenMs ?? NOW_MS),
  withLastOperation((reading) => (reading?.takenMs ?? NOW_MS) + 1),
  withLastOperation(() => Number.NaN),
  withLastOperation(() => Number.POSITIVE_INFINITY),
];
