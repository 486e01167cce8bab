// What the agent knows at this moment of one volume on its node: a snapshot, which NodeVolume replaces with each event; and why what runs
// on the volume is to end, with the table of what gives way to which cause.

import { fsidOf, volumeUIDOf } from "../../contracts/identity.ts";
import type { Operation, OperationKind, VolumeMode } from "../../contracts/kinds/filesystem-layout.ts";
import { formatBytes } from "../../contracts/quantities/quantity.ts";
import type { SampledReading } from "../../contracts/reading.ts";
import type { ConditionReason } from "../../contracts/reasons.ts";
import type { FoundMember, LvmVolume, MountedVolume, RawVolume, Volume, VolumeIdentity } from "../storage/storage.ts";
import type { LvmRecord, NodeRecord } from "./node-records.ts";

/** What runs, and gives way to others. */
export interface Running {
  /** Why it was asked to end; its end is still to come. */
  readonly cancellation: Cancellation | undefined;
}

export interface RunningOperation extends Running {
  readonly operation: Operation;
  /** On the monotonic clock. */
  readonly startedMs: number;
  /** Recording: nothing is changed yet, and it can be given up, an extend too. */
  readonly phase: "Recording" | "UnderWay";
}

export interface SparePreparation extends Running {
  /** What the layout asks for: with another one this preparation is for nothing. */
  readonly wanted: string;
}

export interface Problem {
  readonly reason: ConditionReason;
  readonly message: string;
}

/** What is known of the present mount, and of no other. */
export interface PresentMount {
  readonly volume: MountedVolume;
  /** The members of a span, as last found; empty where there is but one. */
  readonly members: readonly FoundMember[];
  readonly hung: boolean;
  /** When it was first found to take no writes, Unix time. */
  readonly readOnlySinceMs: number | undefined;
  /** Whether its data can be moved between members; undefined: not checked yet. */
  readonly moving: { readonly immovable: string | undefined } | undefined;
  /** Why its spare could not be brought here the last time; the filesystem works without. */
  readonly spareProblem: string | undefined;
}

export type NodeVolumeState = KnownOfVolume &
  (
    | { readonly phase: "Mounted"; readonly mounted: PresentMount }
    /** Removed: the member has been deleted. */
    | { readonly phase: "Unmounted" | "Removed"; readonly mounted: undefined }
  );

/** In every phase. */
interface KnownOfVolume {
  readonly handle: string;
  /** As on the node's disk, or about to be. */
  readonly record: Readonly<NodeRecord>;
  /** Whether the record belongs on the disk, from the first staging on. `recordProblem` says why it is not there as it is. */
  readonly recorded: boolean;
  /** Why the record on the disk is behind `record`. */
  readonly recordProblem: string | undefined;
  /**
   * Members of other drivers may be in use here: from before the first is touched until all are released, or a stage that failed was
   * undone.
   */
  readonly held: boolean;
  /** The size of all members together, last measured or reached. */
  readonly sizeBytes: number | undefined;
  /** The last one of the sampler. */
  readonly reading: SampledReading | undefined;
  /** One at a time, whatever its kind. */
  readonly running: RunningOperation | undefined;
  /** By a policy's schedule. */
  readonly trim: Running | undefined;
  readonly sparePreparation: SparePreparation | undefined;
  /** On the monotonic clock; 0: none since the mount. */
  readonly operationEndedMs: number;
  /** No emergency before, on the monotonic clock. */
  readonly emergencyRetryMs: number;
  /**
   * Member and filesystem may be of two sizes: since the mount, or since an operation that failed. `problem`: why they could not be made
   * one size the last time.
   */
  readonly unsettled: { readonly problem: string | undefined } | undefined;
  /** Whether it can be made smaller while it is unmounted, as storage last said. */
  readonly shrinksUnmounted: boolean | undefined;
  /** While the volume is being unstaged nothing new begins. */
  readonly closing: boolean;
  /** Why members that have left could not be released the last time; the filesystem works without them. */
  readonly leavingProblem: Problem | undefined;
  /** What keeps it from working, other than a hang. */
  readonly problem: Problem | undefined;
  /** The refusal of the present target, when its epoch is a deposed leader's. */
  readonly targetRefusal: string | undefined;
}

export function newVolumeState(record: NodeRecord, recorded: boolean): NodeVolumeState {
  return {
    phase: "Unmounted",
    handle: record.handle,
    record,
    recorded,
    recordProblem: undefined,
    mounted: undefined,
    held: recorded && record.backend === "span" && record.stagingPath !== undefined,
    sizeBytes: undefined,
    reading: undefined,
    running: undefined,
    operationEndedMs: 0,
    trim: undefined,
    sparePreparation: undefined,
    emergencyRetryMs: 0,
    unsettled: undefined,
    shrinksUnmounted: undefined,
    closing: false,
    leavingProblem: undefined,
    problem: undefined,
    targetRefusal: undefined,
  };
}

/** The volume as storage knows it. */
export function volumeOf(record: NodeRecord): Volume {
  const { handle } = record;
  const volumeUID = volumeUIDOf(handle);
  if (volumeUID === undefined) throw new Error(`bug: "${handle}" became a record, but it is not a volume handle`);
  const identity = { handle, volumeUID, fsid: fsidOf(volumeUID) };
  switch (record.backend) {
    case "loop":
      return { backend: "loop", ...identity, fsType: record.fsType, memberFile: record.memberFile };
    case "lvm":
      return lvmVolumeOf(record, identity);
    case "span":
      return {
        backend: "span",
        ...identity,
        fsType: record.fsType,
        members: record.members,
        ...(record.former === undefined ? {} : { former: record.former }),
        formatted: record.memberMade,
        epoch: record.epoch,
      };
  }
}

function lvmVolumeOf(record: LvmRecord, identity: VolumeIdentity): LvmVolume | RawVolume {
  const { deviceClass, volumeID, fsType, volumeMode } = record;
  if (volumeMode === "Block") return { backend: "lvm", volumeMode, ...identity, deviceClass, volumeID };
  if (fsType === undefined) throw new Error(`bug: the record of ${record.handle} has no filesystem type`);
  return { backend: "lvm", ...identity, fsType, deviceClass, volumeID };
}

/** As claims have it. */
export function volumeModeOf(record: NodeRecord): VolumeMode {
  return (record.backend === "lvm" ? record.volumeMode : undefined) ?? "Filesystem";
}

/** A mounted volume as it is now: the members of a span may have changed since it was mounted. */
export function mountedVolumeOf({ volume }: PresentMount, record: NodeRecord): MountedVolume {
  const { device, mountPath } = volume;
  return { ...volumeOf(record), device, mountPath };
}

/** What can be cancelled. */
export type Work = OperationKind | "Trim" | "SparePreparation";

/** What a cause ends. An extend that is cancelled stops waiting for a driver or a device; what it does itself comes to its end. */
const ENDS = {
  /** Another size is wanted than the shrink goes to. */
  TargetChanged: ["Shrink"],
  /** The disk fills, and the emergency extend goes first. */
  EmergencyExtend: ["Shrink", "Extend"],
  /** The disk fills, and a device has not followed its volume. */
  DeviceLate: ["Extend"],
  Unstage: ["Shrink", "Extend"],
  /** No process would watch the shrink. Extends are left to the kernel. */
  AgentEnds: ["Shrink"],
  TrimmerStops: ["Trim"],
  /** A shrink would wait for the trim otherwise. */
  OperationBegins: ["Trim"],
  /** Other spares are wanted. */
  MembersChanged: ["SparePreparation"],
} as const satisfies Record<string, readonly Work[]>;

/** With what its message says. */
export type CancelCause =
  | { readonly because: "TargetChanged"; readonly decision: string }
  | { readonly because: "EmergencyExtend"; readonly availableBytes: number }
  | { readonly because: "OperationBegins"; readonly kind: OperationKind }
  | { readonly because: "DeviceLate" | "Unstage" | "AgentEnds" | "TrimmerStops" | "MembersChanged" };

/** The reason of an aborted signal; as text it is the message. */
export class Cancellation extends Error {
  override name = "Cancellation";
  readonly because: keyof typeof ENDS;

  constructor(cause: CancelCause) {
    super(messageOf(cause));
    this.because = cause.because;
  }

  ends(work: Work): boolean {
    const ended: readonly Work[] = ENDS[this.because];
    return ended.includes(work);
  }

  override toString(): string {
    return this.message;
  }
}

/** Whether a signal was aborted for this cause. */
export function isCancelledFor({ reason }: AbortSignal, because: Cancellation["because"]): boolean {
  return reason instanceof Cancellation && reason.because === because;
}

/** For people: it becomes part of the operation's end. */
function messageOf(cause: CancelCause): string {
  switch (cause.because) {
    case "TargetChanged":
      return cause.decision;
    case "EmergencyExtend":
      return `only ${formatBytes(cause.availableBytes)} are available: the emergency extend goes first`;
    case "OperationBegins":
      return `${cause.kind} begins`;
    case "DeviceLate":
      return "the disk fills, and the device has not followed";
    case "Unstage":
      return "the volume is being unstaged";
    case "AgentEnds":
    case "TrimmerStops":
      return "the agent ends";
    case "MembersChanged":
      return "other members are wanted";
  }
}
