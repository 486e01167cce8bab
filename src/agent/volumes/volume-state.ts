// What the agent knows at this moment of one volume on its node. Everyone on the main thread reads it; each field is written
// by the one who is named beside it.
import type { Operation, VolumeMode } from "../../api/filesystem-layout.ts";
import { fsidOf, volumeUIDOf } from "../../api/identity.ts";
import type { ConditionReason } from "../../api/reasons.ts";
import type {
  FoundMember,
  LvmVolume,
  MountedVolume,
  RawVolume,
  Reading,
  Volume,
  VolumeIdentity,
} from "../storage/storage.ts";
import type { LvmRecord, NodeRecord } from "./node-records.ts";

export interface SampledReading extends Reading {
  readonly growthBytesPerSecond: number;
  readonly peakWriteBytesPerSecond: number;
}

export interface RunningOperation {
  readonly operation: Operation;
  /** Aborting it cancels a shrink; of an extend it ends what asks a driver, or waits for a device. */
  readonly cancel: AbortController;
  /** Resolves when it has ended and its end is known here; never rejects. */
  readonly ended: Promise<void>;
  /** On the monotonic clock. */
  readonly startedMs: number;
  /** False while it is only being recorded: it can be given up then, an extend too. */
  begun: boolean;
}

export interface Problem {
  readonly reason: ConditionReason;
  readonly message: string;
}

/** What was found at one mount says nothing of a later one. */
export interface FoundMoving {
  readonly mounted: MountedVolume;
  /** In words; undefined: its data can be moved. */
  readonly immovable: string | undefined;
}

export interface VolumeState {
  readonly handle: string;
  /** As on the node's disk, or about to be. Replaced as a whole, never changed. */
  record: NodeRecord;
  /** Whether the record is kept on the disk: from the first staging on. */
  recorded: boolean;
  /** Why the record on the disk is behind `record`. */
  recordProblem: string | undefined;
  /** Staging and adoption. */
  mounted: MountedVolume | undefined;
  /**
   * Members of other drivers may be in use here: from before the first is touched until all are let go of, or a stage that failed
   * was undone. The announcement to the API server sets it, staging clears it.
   */
  held: boolean;
  /** The size of all members together, last measured or reached. */
  sizeBytes: number | undefined;
  /** The members of a mounted span, last looked at; empty where there is but one. */
  members: readonly FoundMember[];
  /** Deletion of the member. */
  removed: boolean;
  /** The sampler. */
  reading: SampledReading | undefined;
  hung: boolean;
  /** When the mounted filesystem was first found to take no writes, Unix time; the look at it. */
  readOnlySinceMs: number | undefined;
  /** Operations. */
  running: RunningOperation | undefined;
  /** On the monotonic clock; 0: none since the mount. */
  operationEndedMs: number;
  /** The trimmer; an operation that begins aborts it. */
  trimming: AbortController | undefined;
  /** On the monotonic clock. */
  emergencyRetryMs: number;
  /** Member and filesystem may be of two sizes: since the mount, or since an operation that failed. */
  unsettled: boolean;
  /** Why they could not be made one size the last time. */
  settleProblem: string | undefined;
  /** Whether it can be made smaller while it is unmounted, as last told. */
  shrinksUnmounted: boolean | undefined;
  /** Why its data cannot be moved between members, as last found; undefined: not looked at yet. */
  moving: FoundMoving | undefined;
  /** While the volume is being unstaged nothing new begins. */
  closing: boolean;
  /** Why members that have left could not be let go of the last time; the filesystem works without them. */
  leavingProblem: Problem | undefined;
  /** Why its spare could not be brought here the last time; the filesystem works without. */
  spareProblem: string | undefined;
  /** What keeps it from working, other than a hang. */
  problem: Problem | undefined;
  /** The refusal of the present target, when its epoch is a deposed leader's. */
  refusal: string | undefined;
}

export type VolumeStates = Map<string, VolumeState>;

export function newVolumeState(record: NodeRecord, recorded: boolean): VolumeState {
  return {
    handle: record.handle,
    record,
    recorded,
    recordProblem: undefined,
    mounted: undefined,
    held: recorded && record.backend === "span" && record.stagingPath !== undefined,
    sizeBytes: undefined,
    members: [],
    removed: false,
    reading: undefined,
    hung: false,
    readOnlySinceMs: undefined,
    running: undefined,
    operationEndedMs: 0,
    trimming: undefined,
    emergencyRetryMs: 0,
    unsettled: false,
    settleProblem: undefined,
    shrinksUnmounted: undefined,
    moving: undefined,
    closing: false,
    leavingProblem: undefined,
    spareProblem: undefined,
    problem: undefined,
    refusal: undefined,
  };
}

/** The volume as storage knows it. */
export function volumeOf(record: NodeRecord): Volume {
  const { handle } = record;
  const volumeUID = volumeUIDOf(handle);
  if (volumeUID === undefined) throw new Error(`bug: "${handle}" became a record, but it is no volume handle`);
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
export function mountedVolumeOf({ device, mountPath }: MountedVolume, record: NodeRecord): MountedVolume {
  return { ...volumeOf(record), device, mountPath };
}
