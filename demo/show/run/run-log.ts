// All that the demo has seen of one run, in the order it was seen: what the views draw and the summary counts. It is a record;
// nothing in it decides anything. Times are milliseconds since the writers began.

/** One statfs, with the reservations of writers counted as used, of a filesystem under a writer. */
export interface SpacePoint {
  readonly atMs: number;
  readonly capacityBytes: number;
  readonly availableBytes: number;
}

/** What the policy-engine decided, as the API shows it. */
export interface Decision {
  readonly atMs: number;
  readonly plan: "extend" | "shrink" | "hold";
  readonly rule: string | undefined;
  readonly reason: string;
  readonly message: string;
  readonly fromBytes: number;
  /** Equal to fromBytes on a hold. */
  readonly toBytes: number;
}

/** An operation that the agent has ended. */
export interface EndedOperation {
  readonly startedAtMs: number;
  readonly endedAtMs: number;
  readonly kind: "Extend" | "Shrink";
  readonly outcome: "Succeeded" | "Cancelled" | "FloorReached" | "Failed";
  readonly fromBytes: number;
  readonly toBytes: number;
  readonly reachedBytes: number;
  readonly reason: string;
  readonly message: string;
  /** Taken by the agent from its grant, without the engine. */
  readonly emergency: boolean;
}

export type StoryKind = "act" | "extend" | "shrink" | "hold" | "fault" | "note";

/** One thing worth telling. */
export interface StoryLine {
  readonly atMs: number;
  readonly kind: StoryKind;
  readonly text: string;
  /** Two or three words for the picture; undefined: it is not marked there. */
  readonly label: string | undefined;
}

export interface HostPoint {
  readonly atMs: number;
  /** Bytes that the backing file takes up on the host's disk. */
  readonly bytes: number;
}

export interface RunLog {
  readonly points: SpacePoint[];
  readonly decisions: Decision[];
  readonly operations: EndedOperation[];
  readonly story: StoryLine[];
  readonly hostPoints: HostPoint[];
  /** When the unmanaged filesystem's writer reported "disk full". */
  fixedVolumeFullAtMs: number | undefined;
  /** From the edited policy's apply to its status naming the new generation. */
  policyEditMs: number | undefined;
  /** When the last act ended. */
  endedAtMs: number | undefined;
}

export function createRunLog(): RunLog {
  return {
    points: [],
    decisions: [],
    operations: [],
    story: [],
    hostPoints: [],
    fixedVolumeFullAtMs: undefined,
    policyEditMs: undefined,
    endedAtMs: undefined,
  };
}

export function usedBytes(point: SpacePoint): number {
  return point.capacityBytes - point.availableBytes;
}

/** Without extends that found the size already reached: the engine's and the agent's own may both answer one crossing. */
export function changesOf(operations: readonly EndedOperation[]): EndedOperation[] {
  let sizeBytes: number | undefined;
  return operations.filter(({ kind, outcome, reachedBytes }) => {
    const repeated = kind === "Extend" && outcome === "Succeeded" && reachedBytes === sizeBytes;
    sizeBytes = reachedBytes;
    return !repeated;
  });
}
