// What is under a filesystem of one member: a block device that can be made, grown and cut. The protocol of such filesystems (stage,
// grow, shrink-btrfs, unstage) is written against this port; its adapters are the loop file and the logical volume.
import type { Clock } from "../../../process/clock.ts";
import type { FilePort } from "../../../process/file-port.ts";
import type { Logger } from "../../../process/log.ts";
import type { MovingRoom } from "../moving-room.ts";
import type { LoopVolume, LvmMember, LvmVolume, Mounted } from "../storage.ts";
import type { Tools } from "../tools.ts";

/** What moved data may still take of the place where a member lies: the filesystem of a loop file, a thin pool. */
export interface MemberRoom {
  /** For a message: "thin pool vg1/pool". */
  readonly place: string;
  readonly freeBytes: number;
  /** Of the member: it may take no more than this. */
  readonly holeBytes: number;
  /** After so long freeBytes shows what was taken or given back; 0: at once. */
  readonly lagMs: number;
}

/** With a filesystem on it. */
export type OneMemberVolume = LoopVolume | LvmVolume;

/** Sizes are bytes. All are idempotent and throw StorageError. */
export interface BlockMembers<V extends LoopVolume | LvmMember> {
  /** What people call the member. */
  nameOf(volume: V): string;
  /** Names its record; a plain file name. */
  recordName(volume: V): string;
  /** What a person does about one whose content is not wanted. */
  readonly remedy: string;
  /** Sizes are whole multiples of this. */
  grainBytes(volume: V): number;
  /** Undefined when there is none. */
  sizeBytes(volume: V): Promise<number | undefined>;
  /** Of a mounted volume, by what is on this node alone; undefined when it was taken away under the mount. */
  mountedBytes(volume: Mounted<V>): number | undefined;
  /** The devices that it is attached as now, by the kernel's names, also when it was taken away meanwhile. */
  devices(volume: V): Promise<readonly string[]>;
  /** Makes it where it never existed and is not made elsewhere; what is there is kept, with its size. */
  make(volume: V, sizeBytes: number): Promise<void>;
  /** The one device over it, of its size. Throws MembersMissing, with no device made or changed, where its filesystem is longer than that. */
  attach(volume: V): Promise<string>;
  /** Of a mounted volume: throws MembersMissing where somebody has cut its member under it, as far as that is known without a command. */
  assertWhole(volume: Mounted<V>): void;
  /** "holds 4Ki of unknown data": why one without signature and record may hold data; undefined where it is new. */
  unknownData(volume: V): Promise<string | undefined>;
  /** Recorded, durably, before its only mkfs begins. */
  noteFormatting(volume: V): Promise<void>;
  /** It was made with another volume's filesystem on it, which nothing says to have this volume's UUID yet. */
  isCopy(volume: V): Promise<boolean>;
  /** Recorded, durably, once that filesystem has this volume's UUID. */
  noteRenamed(volume: V): Promise<void>;
  /** Ends what an earlier cut may have left under way; nothing grows before that. */
  settle(volume: V): Promise<void>;
  /** From presentBytes to a size that is no smaller; with the same it only makes the device show it. */
  grow(volume: Mounted<V>, presentBytes: number, toBytes: number): Promise<void>;
  /** As far as it is known without a command; undefined where all of the member's bytes are its own. Others may take of it at any time. */
  room(volume: Mounted<V>): MemberRoom | undefined;
  /** Where the superblocks that precede a cut are read. */
  superblockPath(volume: Mounted<V>): string;
  /**
   * Cannot be undone: the caller has proof that the filesystem ends at toBytes or before. Returns the size that it has then: also fromBytes,
   * where the signal has told it to make way.
   */
  cut(volume: Mounted<V>, fromBytes: number, toBytes: number, signal: AbortSignal): Promise<number>;
  /** Of a device on which nothing is mounted any more. */
  detach(volume: V, device: string): Promise<void>;
  /** Whether a member without a record may be deleted as this volume's. */
  looksOwn(volume: V): Promise<boolean>;
  /** Deletes it with its data; it is attached nowhere, and its own. */
  remove(volume: V): Promise<void>;
}

export interface BlockHost<V extends OneMemberVolume> {
  readonly members: BlockMembers<V>;
  /** Where their records are. */
  readonly recordDirectory: string;
  readonly tools: Tools;
  readonly files: FilePort;
  readonly clock: Clock;
  readonly log: Logger;
  /** Of the shrinks on this node. */
  readonly moving: MovingRoom;
}
