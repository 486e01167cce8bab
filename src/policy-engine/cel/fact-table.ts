// The facts that expressions read, by name: their types, their units and how to read them from a scope. An unmeasured or
// impossible number is a failure here, so that no comparison ever sees it.
import { fail } from "./errors.ts";
import type { Run, Scope, Unit, Value, ValueType } from "./term.ts";

export interface Fact {
  readonly type: ValueType;
  readonly unit: Unit | undefined;
  readonly read: Run<Value>;
  /** What `has()` says; absent for facts that are always there. */
  readonly isKnown?: Run<boolean>;
  /** Of what is the trend of a window: read over it. `read` and `isKnown` are not asked then. */
  readonly over?: (windowMs: () => number) => Required<Pick<Fact, "read" | "isKnown">>;
}

type Facts = ReadonlyMap<string, Fact>;
type ReadNumber = Run<number | undefined>;

function text(read: Run<string>): Fact {
  return { type: "string", unit: undefined, read };
}

function map(read: Run<Readonly<Record<string, string>>>): Fact {
  return { type: "map<string>", unit: undefined, read };
}

/** A whole number, never negative. */
function count(name: string, unit: Unit, read: ReadNumber): Fact {
  return measured("int", name, unit, read, (value) => Number.isSafeInteger(value) && value >= 0);
}

function positive(name: string, unit: Unit, read: ReadNumber): Fact {
  return measured("double", name, unit, read, (value) => value >= 0);
}

function measured(
  type: "int" | "double",
  name: string,
  unit: Unit | undefined,
  read: ReadNumber,
  isPossible: (value: number) => boolean,
): Fact {
  return {
    type,
    unit,
    isKnown: (scope) => read(scope) !== undefined,
    read: (scope) => {
      const value = read(scope);
      if (value === undefined) fail("StaleMetrics", `${name} is not known yet`);
      if (!isPossible(value)) fail("MetricsInconsistent", `${name} cannot be ${value}`);
      return value;
    },
  };
}

/** What depends on how fast the volume fills. */
function trend(unit: Unit | undefined, valueOf: (scope: Scope, windowMs: number) => number): Fact {
  return {
    type: "double",
    unit,
    read: () => fail("StaleMetrics", "growth is not known yet"),
    over: (windowMs) => ({
      read: (scope) => valueOf(scope, windowMs()),
      isKnown: (scope) => typeof scope.growthBytesPerSecond(windowMs()) === "number",
    }),
  };
}

function growthBytesPerSecond(scope: Scope, windowMs: number): number {
  const growth = scope.growthBytesPerSecond(windowMs);
  if (typeof growth === "object") fail("NotEnoughHistory", growth.missing);
  if (Number.isFinite(growth)) return growth;
  fail("MetricsInconsistent", `volume.growthBytesPerSecond cannot be ${growth}`);
}

/** Infinity while the volume does not grow. */
function secondsToFull(scope: Scope, windowMs: number): number {
  const growth = growthBytesPerSecond(scope, windowMs);
  if (growth <= 0) return Number.POSITIVE_INFINITY;
  const { availableBytes } = scope.volume;
  if (availableBytes === undefined) fail("StaleMetrics", "volume.availableBytes is not known yet");
  if (availableBytes >= 0) return availableBytes / growth;
  fail("MetricsInconsistent", `volume.availableBytes cannot be ${availableBytes}`);
}

const VOLUME_FACTS: Facts = new Map<string, Fact>([
  ["namespace", text((scope) => scope.volume.namespace)],
  ["name", text((scope) => scope.volume.name)],
  ["labels", map((scope) => scope.volume.labels)],
  ["annotations", map((scope) => scope.volume.annotations)],
  ["storageClassName", text((scope) => scope.volume.storageClassName)],
  ["backend", text((scope) => scope.volume.backend)],
  ["fsType", text((scope) => scope.volume.fsType)],
  ["nominalBytes", count("volume.nominalBytes", "bytes", (scope) => scope.volume.nominalBytes)],
  ["capacityBytes", count("volume.capacityBytes", "bytes", (scope) => scope.volume.capacityBytes)],
  ["usedBytes", count("volume.usedBytes", "bytes", (scope) => scope.volume.usedBytes)],
  ["availableBytes", count("volume.availableBytes", "bytes", (scope) => scope.volume.availableBytes)],
  ["usedRatio", positive("volume.usedRatio", "ratio", (scope) => scope.volume.usedRatio)],
  ["inodesTotal", count("volume.inodesTotal", "inodes", (scope) => scope.volume.inodesTotal)],
  ["inodesUsed", count("volume.inodesUsed", "inodes", (scope) => scope.volume.inodesUsed)],
  ["inodesUsedRatio", positive("volume.inodesUsedRatio", "ratio", (scope) => scope.volume.inodesUsedRatio)],
  ["growthBytesPerSecond", trend(undefined, growthBytesPerSecond)],
  ["secondsToFull", trend("seconds", secondsToFull)],
  ["ageSeconds", positive("volume.ageSeconds", "seconds", (scope) => scope.volume.ageSeconds)],
]);

const NODE_FACTS: Facts = new Map<string, Fact>([
  ["name", text((scope) => scope.node.name)],
  ["freeBytes", count("node.freeBytes", "bytes", (scope) => scope.node.freeBytes)],
  ["ioUtilizationRatio", positive("node.ioUtilizationRatio", "ratio", (scope) => scope.node.ioUtilizationRatio)],
]);

/** The objects that hold facts. */
export const FACT_OBJECTS: ReadonlyMap<string, Facts> = new Map([
  ["volume", VOLUME_FACTS],
  ["node", NODE_FACTS],
]);

/** The instant of the decision, in milliseconds. */
export const NOW: Fact = { type: "timestamp", unit: undefined, read: (scope) => scope.nowMs };

/** The most bytes used in the window. Missing history is a failure of its own kind. */
export function usedBytesMax(scope: Scope, windowMs: number): number {
  const bytes = scope.usedBytesMax(windowMs);
  if (typeof bytes === "object") fail("NotEnoughHistory", bytes.missing);
  if (Number.isSafeInteger(bytes) && bytes >= 0) return bytes;
  fail("MetricsInconsistent", `volume.usedBytesMax cannot be ${bytes}`);
}

/** The same against the present capacity, so an operation does not restart a window. */
export function usedRatioMax(scope: Scope, windowMs: number): number {
  const capacityBytes = scope.volume.capacityBytes;
  if (capacityBytes === undefined) fail("StaleMetrics", "volume.capacityBytes is not known yet");
  if (capacityBytes > 0) return usedBytesMax(scope, windowMs) / capacityBytes;
  fail("MetricsInconsistent", `volume.capacityBytes cannot be ${capacityBytes}`);
}
