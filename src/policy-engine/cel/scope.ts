// What one evaluation sees: the facts about one volume at one instant. A scope is immutable and belongs to one evaluation
// round: variables are memoised by its identity, so new facts need a new scope object (getters on its members are fine).

/** History that a window lacks; the reason is for people. */
export interface MissingHistory {
  missing: string;
}

/** A number that was not measured is undefined, never 0: an expression that reads it fails instead of guessing. */
type Measured = number | undefined;

export interface VolumeScope {
  readonly namespace: string;
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: Readonly<Record<string, string>>;
  readonly storageClassName: string;
  readonly backend: string;
  readonly fsType: string;
  readonly nominalBytes: Measured;
  readonly capacityBytes: Measured;
  readonly usedBytes: Measured;
  readonly availableBytes: Measured;
  readonly usedRatio: Measured;
  /** 0 means unlimited, as on btrfs; then inodesUsedRatio is 0. */
  readonly inodesTotal: Measured;
  readonly inodesUsed: Measured;
  readonly inodesUsedRatio: Measured;
  /** Negative while files are deleted. */
  readonly growthBytesPerSecond: Measured;
  /** Infinity while the volume does not grow. */
  readonly secondsToFull: Measured;
  readonly ageSeconds: Measured;
}

export interface NodeScope {
  /** Empty while the volume is on no node. */
  readonly name: string;
  readonly freeBytes: Measured;
  readonly ioUtilizationRatio: Measured;
}

export interface Scope {
  readonly volume: VolumeScope;
  readonly node: NodeScope;
  readonly nowMs: number;
  /** The most bytes used at any time in the last windowMs. */
  readonly usedBytesMax: (windowMs: number) => number | MissingHistory;
}

/** One compiled step: its value on a scope. Throws EvaluationFailure. */
export type Run<T> = (scope: Scope) => T;
