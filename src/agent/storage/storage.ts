// The ports between the agent's process (what should be, who may write, what is reported) and storage (how a filesystem on
// its members is made, mounted, grown and shrunk), in parts by what a caller needs. Four adapters: real loop devices, the simulated disk of
// machines without root, logical volumes (with a filesystem, or as they are), and members of other CSI drivers; each has the parts that
// mean something to it. Every method is idempotent: after a crash at any line the same call finishes the work.
import type { FsType } from "../../contracts/kinds/filesystem-layout.ts";
import type { Reading } from "../../contracts/reading.ts";
import type { SpanMember } from "../member-drivers/span-member.ts";

export interface VolumeIdentity {
  readonly handle: string;
  readonly volumeUID: string;
  readonly fsid: string;
}

interface FilesystemIdentity extends VolumeIdentity {
  readonly fsType: FsType;
}

export interface LoopVolume extends FilesystemIdentity {
  readonly backend: "loop";
  /** File name in the member directory; checked to contain no separator. */
  readonly memberFile: string;
}

/** One logical volume of this node, whatever is on it. */
export interface LvmMember extends VolumeIdentity {
  readonly backend: "lvm";
  readonly deviceClass: string;
  /** What LVM calls it, within the class' volume group. */
  readonly volumeID: string;
}

export interface LvmVolume extends LvmMember, FilesystemIdentity {
  readonly volumeMode?: "Filesystem";
}

/** Pods get the device itself: nothing is ever formatted or mounted, and what pods write is unknown. */
export interface RawVolume extends LvmMember {
  readonly volumeMode: "Block";
}

export interface SpanVolume extends FilesystemIdentity {
  readonly backend: "span";
  /** As the layout has them, in its order. */
  readonly members: readonly SpanMember[];
  /** Were in it when this node had it last, and are named by its layout no more: for people. */
  readonly former?: readonly SpanMember[] | undefined;
  /** A record or the layout says that the filesystem was made once: the agent never formats again. */
  readonly formatted: boolean;
  /** The highest number of a leader that was ever accepted for it: recorded with what is done for that leader. */
  readonly epoch: number;
}

/** What identifies one volume on this node; everything else is found on the disk. */
export type Volume = FilesystemVolume | RawVolume;
export type FilesystemVolume = LoopVolume | LvmVolume | SpanVolume;

/** A staged volume. */
export type Mounted<V extends VolumeIdentity> = V & {
  /** The member device, e.g. /dev/loop3, the first of several; on the simulated disk the member file. */
  readonly device: string;
  /** Where kubelet staged it; a raw device is shown at a file below. */
  readonly mountPath: string;
};
export type MountedVolume = Mounted<Volume>;
export type MountedFilesystem = Mounted<FilesystemVolume>;
export type MountedLoop = Mounted<LoopVolume>;
export type MountedLvm = Mounted<LvmVolume>;
export type MountedSpan = Mounted<SpanVolume>;

/** One of several members, as the kernel and the node's record have it. */
export interface FoundMember {
  readonly name: string;
  /**
   * Present: a device of the mounted filesystem. Spare: next to it, and ready to be taken in without asking another process. Leaving: out
   * of it, not released yet. Removed: wiped, and given back to its driver, here or before. Refused: its device carries something (`why`),
   * so that it is left as it is. Stranger: a device of the mounted filesystem that does not belong to a member, by the kernel's name.
   * Another member that was not taken in yet is not found.
   */
  readonly state: "Present" | "Spare" | "Leaving" | "Removed" | "Refused" | "Stranger";
  readonly devid?: number;
  readonly deviceUUID?: string;
  /** Of the device as the filesystem uses it. */
  readonly sizeBytes?: number;
  /** What of that belongs to chunks: all of it moves before the member can leave. */
  readonly allocatedBytes?: number;
  /** What the device itself has, where it may be more. */
  readonly deviceBytes?: number;
  readonly why?: string;
  /** When a refused one was last checked, on the monotonic clock. */
  readonly lookedMs?: number;
}

export interface ShrinkControl {
  /** Bytes that must stay available at every moment: max(minAvailable, 256 MiB, 2 s of the writer's peak rate). */
  readonly reserveBytes: () => number;
  /** Aborting it cancels the running step at once (an extend pre-empts, the volume is unstaged). */
  readonly signal: AbortSignal;
  /** After each finished step, with the size reached. */
  readonly onStep: (sizeBytes: number) => void;
}

export type ShrinkResult =
  | { readonly outcome: "Succeeded"; readonly sizeBytes: number }
  /** A writer came near the reserve, or the signal fired; the size reached stays. */
  | { readonly outcome: "Cancelled"; readonly sizeBytes: number; readonly message: string }
  /** Another process is at work on the filesystem, and is not disturbed; the size reached stays. */
  | { readonly outcome: "Busy"; readonly sizeBytes: number; readonly message: string }
  /** The filesystem cannot safely give more; floorBytes is its own figure. */
  | {
      readonly outcome: "FloorReached";
      readonly sizeBytes: number;
      readonly floorBytes: number;
      /** What was in use then; absent where it is not mounted. */
      readonly usedBytes?: number;
      /** Why no data was moved, where that is the cause; it passes without a change of use. */
      readonly immovable?: string;
      readonly message: string;
    };

/** Of a filesystem that is not mounted: it ends as asked for, or as it was. */
export type UnmountedShrinkResult =
  | Exclude<ShrinkResult, { readonly outcome: "Cancelled" | "Busy" }>
  /** Not begun, or taken back; the message says why. */
  | { readonly outcome: "Refused"; readonly sizeBytes: number; readonly message: string };

/** Shrinks of filesystems that cannot be made smaller while they are mounted. */
export interface UnmountedShrinks<V extends Volume = Volume> {
  /** Whether there is a way that a crash at any line leaves whole; undefined where that is unknown now. */
  shrinksUnmounted(volume: V): boolean | undefined;
  /**
   * Of a volume that is mounted nowhere. The signal ends it as it was before. Throws where it is not known how it has ended: finishUnmounted
   * then comes before the next mount.
   */
  shrinkUnmounted(volume: V, sizeBytes: number, control: ShrinkControl): Promise<UnmountedShrinkResult>;
  /**
   * Ends a shrink that this node has a record of, one way or the other; without a record no other process is asked. Stage does so by
   * itself. Throws ShrinkOutcomeUnknown where the volume must not be mounted.
   */
  finishUnmounted(volume: V): Promise<void>;
}

/** A sentence for people. */
export type Tell = (message: string) => void;

/** From a member to a mount where kubelet stages it, and back. Every backend has it. */
export interface Mounting<V extends Volume = Volume> {
  /**
   * Makes the member if it never existed (sizeBytes), attaches it, formats it only if it carries no signature and no record
   * says it was formatted, mounts it at mountPath. A second call on a mounted volume returns the same. Members of other
   * drivers have sizes of their own: sizeBytes says nothing for them.
   */
  stage(volume: V, sizeBytes: number, mountPath: string): Promise<Mounted<V>>;
  /** Cancels what runs, unmounts plainly (never lazily), detaches; done when nothing holds the device. */
  unstage(volume: V, mountPath: string): Promise<void>;
  /** The volume if this node has it mounted at mountPath now, after a restart. */
  find(volume: V, mountPath: string): Promise<Mounted<V> | undefined>;
  /** Where the kernel has this volume's member mounted, first of all; undefined when nowhere, or where that is unknown. */
  mountPath(volume: V): Promise<string | undefined>;
  /** Removes the member and its record. Refused with DeviceBusy while mounted anywhere. Others' members are not touched. */
  remove(volume: V): Promise<void>;
}

/** The size of a volume. Every backend has it. */
export interface Resizing<V extends Volume = Volume> {
  /**
   * Size of all members together, bytes; undefined when there is none, or while it is not mounted and its size is unknown. At once, or
   * within its own limit.
   */
  sizeBytes(volume: V): Promise<number | undefined>;
  /**
   * Grows members and filesystem to sizeBytes or more; never shrinks. Returns the size reached, read back. The signal ends only a wait for
   * a member of another driver. `tell` gets a message for each operation of another process that was cancelled for the extend.
   */
  extend(volume: Mounted<V>, sizeBytes: number, signal?: AbortSignal, tell?: Tell): Promise<number>;
  /** The protocol of docs/architecture/shrink.md: in steps, watched, never under the filesystem's own floor. */
  shrink(volume: Mounted<V>, sizeBytes: number, control: ShrinkControl): Promise<ShrinkResult>;
  /**
   * After a restart in mid-operation, or an operation that failed: waits for or cancels what a dead agent's commands still do in
   * the kernel, and makes members and filesystem agree (no member ever smaller than the filesystem on it). Returns the size. An extend does
   * not wait for such commands: it goes first, as where the signal comes, this throws DeviceBusy, and is to be called again.
   */
  recover(volume: Mounted<V>, signal?: AbortSignal): Promise<number>;
}

/** Of filesystems whose unused blocks the host can use. */
export interface Trimming<V extends Volume = Volume> {
  /**
   * Gives the filesystem's unused blocks back to the host. Returns the bytes trimmed; undefined where it gave way before its end, to
   * another operation or to the signal.
   */
  trim(volume: Mounted<V>, signal?: AbortSignal): Promise<number | undefined>;
}

/** Of filesystems: what a raw device holds is unknown. */
export interface FreshReadings<V extends Volume = Volume> {
  /** One reading now, after making pending deletions and writes visible (syncfs). */
  freshReading(volume: Mounted<V>): Promise<Reading>;
}

/** Of a filesystem whose members are devices of other drivers: one or several of them. */
export interface Members<V extends Volume = Volume> {
  /** The members of a mounted filesystem, where it can have several; empty where the one member's size says all. */
  members(volume: Mounted<V>): Promise<readonly FoundMember[]>;
  /**
   * Why no data is moved from one member to another as things are, in words; undefined: it is moved, or there is but one member. Reads
   * only, by commands that take a while: not for each sample.
   */
  immovable(volume: Mounted<V>): Promise<string | undefined>;
  /** Wipes, and gives back to their drivers, members that shall leave and are out of the filesystem by now. */
  releaseMembers(volume: Mounted<V>): Promise<void>;
  /**
   * Has spare members' devices published and checked, so that an extend can take them in with their driver away. A spare that is refused
   * does not fail the call: members() says it. The signal ends a wait for that driver, as an extend does.
   */
  prepareSpares(volume: Mounted<V>, signal?: AbortSignal): Promise<void>;
  /**
   * Of a volume that is mounted at no path known here: gives back to their drivers what is left of members here; nothing where there is none.
   * Throws DeviceBusy while the kernel has the filesystem, in another mount namespace perhaps.
   */
  giveBack(volume: V): Promise<void>;
}

/** Of a filesystem on one member of this node. */
export interface OneMember<V extends Volume = Volume> {
  /** Throws MembersMissing where another process has cut the member of a mounted volume, as far as that is known without a command. */
  assertWhole(volume: Mounted<V>): void;
}

/** Of where this node makes members. */
export interface FreeSpace {
  /**
   * Free bytes where members are made: in a device class, without one on the node's own disk. Undefined where that is unknown. At once, or
   * within its own limit.
   */
  freeBytes(deviceClass?: string): Promise<number | undefined>;
}

/** The node's storage, for a volume of any backend; a caller asks for the ports that it needs. */
export interface Storage extends Mounting, Resizing, Trimming, Members, UnmountedShrinks, FreeSpace {}
/**
 * What the loop device and each filesystem can be made of. Sizes of members are whole grains. Of a logical volume they are its device
 * class'.
 */
export const BLOCK_GRAIN_BYTES = 4096;

/** Rounded down: a policy's max is a promise. */
export function wholeGrains(sizeBytes: number, grainBytes = BLOCK_GRAIN_BYTES): number {
  return Math.floor(sizeBytes / grainBytes) * grainBytes;
}

/** Rounded up: no member ends before what is on it. */
export function coveringGrains(sizeBytes: number, grainBytes: number): number {
  return Math.ceil(sizeBytes / grainBytes) * grainBytes;
}
