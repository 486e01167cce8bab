// What cluster policies allow at most. The strictest of all that match a claim holds, whichever policy decides the claim; a ceiling that
// cannot be read allows nothing.
import type { Mode } from "../../contracts/kinds/policy-ceilings.ts";
import { clusterVolumePolicySpec } from "../../contracts/kinds/volume-policy.ts";
import { parseQuantity } from "../../contracts/quantities/quantity.ts";

export interface Ceilings {
  readonly maxBytes: Ceiling<number> | undefined;
  readonly namespaceBytes: Ceiling<number> | undefined;
  readonly modes: { readonly extend: Ceiling<Mode> | undefined; readonly shrink: Ceiling<Mode> | undefined };
  /** Each set must hold the claim's class. */
  readonly storageClassNames: readonly Ceiling<ReadonlySet<string>>[];
  /** Changes that begin within an hour in the claim's namespace. */
  readonly changesPerHour: Ceiling<number> | undefined;
  /** Operations that run at once, of all volumes: on the claim's node, and in the cluster. */
  readonly operations: { readonly node: Ceiling<number> | undefined; readonly cluster: Ceiling<number> | undefined };
  readonly modificationsPerDay: DriverCeilings;
}

/** By driver: how often it expands one volume in 24 hours. */
type DriverCeilings = ReadonlyMap<string, Ceiling<number>>;
const NO_DRIVERS: DriverCeilings = new Map();

/** A bound and the ClusterVolumePolicy that sets it. */
export interface Ceiling<T> {
  readonly value: T;
  readonly policy: string;
}

export const NO_CEILINGS: Ceilings = {
  maxBytes: undefined,
  namespaceBytes: undefined,
  modes: { extend: undefined, shrink: undefined },
  storageClassNames: [],
  changesPerHour: undefined,
  operations: { node: undefined, cluster: undefined },
  modificationsPerDay: NO_DRIVERS,
};

/** The ceilings that a cluster policy's spec carries. Total: what cannot be read allows nothing. */
export function readCeilings(policy: string, spec: unknown): Ceilings {
  const parsed = clusterVolumePolicySpec.shape.ceilings.safeParse(spec);
  if (!parsed.success) {
    const mode: Ceiling<Mode> = { value: "Recommend", policy };
    return { ...NO_CEILINGS, maxBytes: { value: 0, policy }, modes: { extend: mode, shrink: mode } };
  }
  const { max, bytesPerNamespace, modes, storageClassNames } = parsed.data ?? {};
  const { changesPerHourPerNamespace, concurrentOperations, driverModifications } = parsed.data ?? {};
  const from = <T>(value: T | undefined): Ceiling<T> | undefined =>
    value === undefined ? undefined : { value, policy };
  const classes = from(storageClassNames && new Set(storageClassNames));
  return {
    maxBytes: from(max === undefined ? undefined : bytesOrNothing(max)),
    namespaceBytes: from(bytesPerNamespace === undefined ? undefined : bytesOrNothing(bytesPerNamespace)),
    modes: { extend: from(modes?.extend), shrink: from(modes?.shrink) },
    storageClassNames: classes === undefined ? [] : [classes],
    changesPerHour: from(changesPerHourPerNamespace),
    operations: { node: from(concurrentOperations?.perNode), cluster: from(concurrentOperations?.perCluster) },
    modificationsPerDay:
      driverModifications === undefined
        ? NO_DRIVERS
        : new Map(driverModifications.map(({ driver, perDay }) => [driver, { value: perDay, policy }])),
  };
}

/** Whether they bound the same, in the name of the same policies. */
export function sameCeilings(a: Ceilings, b: Ceilings): boolean {
  return a === b || textOf(a) === textOf(b);
}

function textOf(ceilings: Ceilings): string {
  const listed = (_key: string, value: unknown): unknown =>
    value instanceof Set || value instanceof Map ? [...(value as Iterable<unknown>)] : value;
  return JSON.stringify(ceilings, listed);
}

/** The strictest of several; NO_CEILINGS of none. */
export function strictestCeilings(all: readonly Ceilings[]): Ceilings {
  const [first = NO_CEILINGS, ...rest] = all;
  return rest.reduce(
    (strictest, one) => ({
      maxBytes: lower(strictest.maxBytes, one.maxBytes, (bytes) => bytes),
      namespaceBytes: lower(strictest.namespaceBytes, one.namespaceBytes, (bytes) => bytes),
      modes: {
        extend: lower(strictest.modes.extend, one.modes.extend, freedom),
        shrink: lower(strictest.modes.shrink, one.modes.shrink, freedom),
      },
      storageClassNames: [...strictest.storageClassNames, ...one.storageClassNames],
      changesPerHour: lower(strictest.changesPerHour, one.changesPerHour, (count) => count),
      operations: {
        node: lower(strictest.operations.node, one.operations.node, (count) => count),
        cluster: lower(strictest.operations.cluster, one.operations.cluster, (count) => count),
      },
      modificationsPerDay: lowerOfEach(strictest.modificationsPerDay, one.modificationsPerDay),
    }),
    first,
  );
}

const FREEDOM: Readonly<Record<Mode, number>> = { Recommend: 0, Approve: 1, Enforce: 2 };

/** How much a mode lets Tidemark do by itself: Enforce > Approve > Recommend, which no approval has act. */
export function freedom(mode: Mode): number {
  return FREEDOM[mode];
}

function lower<T>(a: Ceiling<T> | undefined, b: Ceiling<T> | undefined, measure: (value: T) => number) {
  if (a === undefined || b === undefined) return a ?? b;
  return measure(b.value) < measure(a.value) ? b : a;
}

function lowerOfEach(a: DriverCeilings, b: DriverCeilings): DriverCeilings {
  if (a.size === 0 || b.size === 0) return a.size === 0 ? b : a;
  const lowest = new Map(a);
  for (const [driver, ceiling] of b) lowest.set(driver, lower(a.get(driver), ceiling, (count) => count) ?? ceiling);
  return lowest;
}

function bytesOrNothing(text: string): number {
  try {
    return parseQuantity(text);
  } catch {
    return 0;
  }
}
