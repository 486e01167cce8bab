// What cluster policies allow at most. The strictest of all that match a claim holds, whichever policy decides the claim; a ceiling that
// cannot be read allows nothing.
import { clusterVolumePolicySpec, type Mode } from "../../contracts/kinds/volume-policy.ts";
import { parseQuantity } from "../../contracts/quantities/quantity.ts";

export interface Ceilings {
  readonly maxBytes: Ceiling<number> | undefined;
  readonly namespaceBytes: Ceiling<number> | undefined;
  readonly modes: { readonly extend: Ceiling<Mode> | undefined; readonly shrink: Ceiling<Mode> | undefined };
  /** Each set must hold the claim's class. */
  readonly storageClassNames: readonly Ceiling<ReadonlySet<string>>[];
}

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
};

/** The ceilings that a cluster policy's spec carries. Total: what cannot be read allows nothing. */
export function readCeilings(policy: string, spec: unknown): Ceilings {
  const parsed = clusterVolumePolicySpec.shape.ceilings.safeParse(spec);
  if (!parsed.success) return { ...NO_CEILINGS, maxBytes: { value: 0, policy } };
  const { max, bytesPerNamespace, modes, storageClassNames } = parsed.data ?? {};
  const from = <T>(value: T | undefined): Ceiling<T> | undefined =>
    value === undefined ? undefined : { value, policy };
  const classes = from(storageClassNames && new Set(storageClassNames));
  return {
    maxBytes: from(max === undefined ? undefined : bytesOrNothing(max)),
    namespaceBytes: from(bytesPerNamespace === undefined ? undefined : bytesOrNothing(bytesPerNamespace)),
    modes: { extend: from(modes?.extend), shrink: from(modes?.shrink) },
    storageClassNames: classes === undefined ? [] : [classes],
  };
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

function bytesOrNothing(text: string): number {
  try {
    return parseQuantity(text);
  } catch {
    return 0;
  }
}
