// What a decision rests on, each piece by name, and how a change of it is noticed. What is new is named here, or nothing compiles. Pure.
import type { ClaimFacts, Facts, FilesystemFacts, NodeFacts, ReceivedReading } from "../facts/facts.ts";
import type { VolumeState } from "../gather/volume-registry.ts";

/**
 * Facts that rules may read and no decision stands on less than their values. Growth, age and the time are not among them: a policy that
 * reads one is followed in each round, as is one that reads a fact which is not named here.
 */
export const TIMELESS_FACTS: ReadonlySet<string> = new Set([
  ...["namespace", "name", "labels", "annotations", "storageClassName", "backend", "fsType"].map(ofVolume),
  ...["nominalBytes", "capacityBytes", "usedBytes", "availableBytes", "usedRatio"].map(ofVolume),
  ...["inodesTotal", "inodesUsed", "inodesUsedRatio", "usedRatioMax", "usedBytesMax"].map(ofVolume),
  ...["node.name", "node.freeBytes", "node.ioUtilizationRatio"],
]);

function ofVolume(name: string): string {
  return `volume.${name}`;
}

/**
 * How a change of each fact is noticed. "noted": it is made of cached objects alone, which are noted as they are read (cache-reads.ts), of
 * what the registry remembers (REMEMBERED), or of both. "compared": by its value, below. "absent": it goes by the clock as well, so that no
 * decision stands while it is there. A new fact is named here, or nothing compiles.
 */
type Notice = "noted" | "compared" | "absent";

const FACTS: Readonly<Record<keyof Facts, Notice>> = {
  nowMs: "compared", // by how far it is from the monotonic clock: a clock that was set is noticed
  monotonicMs: "compared",
  claim: "noted",
  filesystem: "noted",
  node: "compared",
  namespaceBytes: "compared",
  quota: "compared", // by what the others of its namespace are larger by
  metricsStale: "compared",
  ruleTimers: "noted",
  evaluationIntervalMs: "noted", // never changes
  vainExtends: "noted",
  changes: "compared",
  flaps: "compared",
  missedWindows: "noted",
  // Only a change that is wanted asks for these two, and no such decision stands.
  rates: "noted",
  approvals: "noted",
};

const CLAIM_FACTS: Readonly<Record<keyof ClaimFacts, Notice>> = {
  namespace: "noted",
  name: "noted",
  labels: "noted",
  annotations: "noted",
  storageClassName: "noted",
  backend: "noted",
  fsType: "noted",
  volumeMode: "noted",
  nominalBytes: "noted",
  initialSizeBytes: "noted",
  classMaxBytes: "noted",
  raisedRequestBytes: "noted",
  createdAtMs: "noted",
  deleting: "noted",
  otherAutoscaler: "noted",
  driver: "noted",
  infeasibleResize: "noted",
};

const FILESYSTEM_FACTS: Readonly<Record<keyof FilesystemFacts, Notice>> = {
  sizeBytes: "noted",
  mounted: "noted",
  readOnly: "noted",
  reading: "compared",
  operationInProgress: "absent",
  policyShrink: "absent",
  shrinkUnderWay: "absent",
  replacement: "absent",
  lastOperation: "noted",
  extendsInVain: "noted",
  shrinksInVain: "noted",
  inodesPerByte: "noted",
  capacityAtExtendBytes: "noted",
  history: "compared",
  growth: "noted", // a decision that reads it does not stand
  shrinksUnmounted: "noted",
  immovable: "noted",
  plannedShrink: "absent",
  refusedShrink: "noted",
  consolidation: "absent",
};

/** How a change of what the registry remembers is noticed. "same": it is replaced when it changes. "no ground": no decision rests on it. */
const REMEMBERED: Readonly<Record<keyof VolumeState, "same" | "compared" | "absent" | "no ground">> = {
  handle: "no ground",
  claimGrowth: "same",
  history: "compared",
  growth: "same",
  reading: "compared",
  node: "compared",
  timers: "same",
  vainExtends: "same",
  beforeExtend: "same",
  extends: "compared",
  shrinks: "compared",
  flaps: "compared",
  peakBeforeShrinkBytes: "same",
  missedWindows: "same",
  layoutKnown: "same",
  lastEnd: "same",
  lastRun: "same",
  shrinksInVain: "same",
  pending: "absent",
  stopAskedAtMs: "same",
  reported: "same",
  guided: "same",
  applying: "absent",
  askedMeanwhile: "no ground",
  reportTimer: "no ground", // it asks by itself
  turnTimer: "no ground",
  standing: "no ground",
};

/** Of a reading. "time": by its freshness and its order alone; "clock": by whether it differs from ours. */
const READING: Readonly<Record<keyof ReceivedReading, "figure" | "time" | "clock">> = {
  capacityBytes: "figure",
  availableBytes: "figure",
  usedBytes: "figure",
  inodesTotal: "figure",
  inodesUsed: "figure",
  dataProfiles: "figure",
  growthBytesPerSecond: "figure",
  peakWriteBytesPerSecond: "figure",
  afterEndMs: "figure",
  source: "figure",
  intervalMs: "figure",
  sampledAtMs: "time",
  takenMs: "time",
  aheadMs: "clock",
};

const NODE: Readonly<Record<keyof NodeFacts, "figure">> = {
  name: "figure",
  freeBytes: "figure",
  ioUtilizationRatio: "figure",
};

const SAME_FIELDS = keysOf(REMEMBERED, "same");
const ABSENT_FIELDS = keysOf(REMEMBERED, "absent");
const READING_FIGURES = keysOf(READING, "figure");
const NODE_FIGURES = keysOf(NODE, "figure");
const ABSENT_FACTS = keysOf(FACTS, "absent");
const ABSENT_CLAIM_FACTS = keysOf(CLAIM_FACTS, "absent");
const ABSENT_FILESYSTEM_FACTS = keysOf(FILESYSTEM_FACTS, "absent");

function keysOf<K extends string, V>(table: Readonly<Record<K, V>>, value: V): readonly K[] {
  return (Object.keys(table) as K[]).filter((key) => table[key] === value);
}

/** Some of the facts are there that time alone may change. */
export function goesByClock(facts: Facts): boolean {
  const { claim, filesystem } = facts;
  return (
    ABSENT_FACTS.some((fact) => facts[fact] !== undefined) ||
    ABSENT_CLAIM_FACTS.some((fact) => claim[fact] !== undefined) ||
    ABSENT_FILESYSTEM_FACTS.some((fact) => filesystem[fact] !== undefined)
  );
}

/** Nothing of it is under way. */
export function isAtRest(state: VolumeState): boolean {
  for (const field of ABSENT_FIELDS) if (state[field] !== undefined && state[field] !== false) return false;
  return true;
}

/** What is replaced when it changes, in the order that isAsRemembered knows. */
export function rememberedOf(state: VolumeState): readonly unknown[] {
  return SAME_FIELDS.map((field) => state[field]);
}

export function isAsRemembered(state: VolumeState, before: readonly unknown[]): boolean {
  for (let i = 0; i < SAME_FIELDS.length; i += 1)
    if (state[SAME_FIELDS[i] as keyof VolumeState] !== before[i]) return false;
  return true;
}

export function isSameFigures(a: ReceivedReading, b: ReceivedReading): boolean {
  return isEqual(READING_FIGURES, a, b);
}

export function isSameNode(a: NodeFacts | undefined, b: NodeFacts | undefined): boolean {
  if (a === undefined || b === undefined) return a === b;
  return isEqual(NODE_FIGURES, a, b);
}

/** Changes with each that is noted, and with each that is forgotten. */
export function changesOf({ extends: extended, shrinks, flaps }: VolumeState): number {
  if (extended.length + shrinks.length + flaps.length === 0) return 0;
  let sum = 0;
  for (const { atMs } of extended) sum += 1 + atMs;
  for (const { atMs } of shrinks) sum += 2 + 3 * atMs;
  for (const { atMs } of flaps) sum += 3 + 5 * atMs;
  return sum;
}

function isEqual<T extends object>(keys: readonly (keyof T)[], a: T, b: T): boolean {
  if (a === b) return true;
  for (const key of keys) if (!Object.is(a[key], b[key])) return false;
  return true;
}
