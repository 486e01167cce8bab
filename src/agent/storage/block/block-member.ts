// What is under a filesystem of one member: a block device that can be made, grown and cut. The protocol of such filesystems (stage,
// grow, shrink-btrfs, unstage) is written against these ports; their adapters are the loop file and the logical volume.

import type { Clock } from "../../../platform/process/clock.ts";
import type { FilePort } from "../../../platform/process/effects/file-port.ts";
import type { Logger } from "../../../platform/process/log.ts";
import type { MemberRoom } from "../decide-shrink.ts";
import type { MountReader } from "../filesystem/mount-reader.ts";
import type { LoopVolume, LvmMember, LvmVolume, Mounted } from "../storage.ts";
import type { Tools } from "../tools.ts";

/** With a filesystem on it. */
export type OneMemberVolume = LoopVolume | LvmVolume;

/** What messages and records say of a member. */
export interface MemberNames<V extends LoopVolume | LvmMember> {
  /** What people call the member. */
  nameOf(volume: V): string;
  /** Names its record; a plain file name. */
  recordName(volume: V): string;
  /** What a person does about one whose content is not wanted. */
  readonly remedy: string;
}

/** How large a member is, and may become. */
export interface MemberSizes<V extends LoopVolume | LvmMember> {
  /** Sizes are whole multiples of this. */
  grainBytes(volume: V): number;
  /** Undefined when there is none. */
  sizeBytes(volume: V): Promise<number | undefined>;
  /** Of a mounted volume, by what is on this node alone; undefined when it was taken away under the mount. */
  mountedBytes(volume: Mounted<V>): number | undefined;
  /**
   * Of a mounted volume: throws MembersMissing where another process has cut its member under it, as far as that is known without a
   * command.
   */
  assertWhole(volume: Mounted<V>): void;
  /** Ends what an earlier cut may have left under way; nothing grows before that. */
  endEarlierCut(volume: V): Promise<void>;
  /** From presentBytes to that size or a larger one; with the same size it only makes the device show it. */
  grow(volume: Mounted<V>, presentBytes: number, toBytes: number): Promise<void>;
}

/** What precedes the cut of a member, and the cut. */
export interface MemberCuts<V extends LoopVolume | LvmMember> {
  /** As far as it is known without a command; undefined where all of the member's bytes are its own. Others may take of it at any time. */
  room(volume: Mounted<V>): MemberRoom | undefined;
  /** Where the superblocks that precede a cut are read. */
  superblockPath(volume: Mounted<V>): string;
  /**
   * Cannot be undone: the caller has proof that the filesystem ends at toBytes or before. Returns the size afterwards, which is fromBytes
   * where the signal stopped the cut first.
   */
  cut(volume: Mounted<V>, fromBytes: number, toBytes: number, signal: AbortSignal): Promise<number>;
}

/** A member as a block device of this node. */
export interface MemberAttachment<V extends LoopVolume | LvmMember> {
  /** Makes it where it never existed and is not made elsewhere; an existing member stays, with its size. */
  make(volume: V, sizeBytes: number): Promise<void>;
  /** The one device over it, of its size. Throws MembersMissing, with no device made or changed, where its filesystem is longer than that. */
  attach(volume: V): Promise<string>;
  /** The devices that it is attached as now, by the kernel's names, also when the member itself is gone. */
  devices(volume: V): Promise<readonly string[]>;
  /** Of a device on which nothing is mounted any longer. */
  detach(volume: V, device: string): Promise<void>;
}

/** Whether a member is new, and what is recorded of that. */
export interface MemberContents<V extends LoopVolume | LvmMember> {
  /** "holds 4Ki of unknown data": why one without signature and record may hold data; undefined where it is new. */
  unknownData(volume: V): Promise<string | undefined>;
  /** Recorded, durably, before its only mkfs begins. */
  noteFormatting(volume: V): Promise<void>;
  /** It was made with another volume's filesystem on it, which nothing says to have this volume's UUID yet. */
  isCopy(volume: V): Promise<boolean>;
  /** Recorded, durably, once that filesystem has this volume's UUID. */
  noteRenamed(volume: V): Promise<void>;
}

/** The end of a member. */
export interface MemberRemoval<V extends LoopVolume | LvmMember> {
  /** Whether a member without a record may be deleted as this volume's. */
  looksOwn(volume: V): Promise<boolean>;
  /** Deletes it with its data; it is attached nowhere, and its own. */
  remove(volume: V): Promise<void>;
}

/** All of it: what an adapter has. Sizes are bytes; every method is idempotent and throws StorageError. */
export interface BlockMembers<V extends LoopVolume | LvmMember>
  extends MemberNames<V>,
    MemberSizes<V>,
    MemberCuts<V>,
    MemberAttachment<V>,
    MemberContents<V>,
    MemberRemoval<V> {}

/** `M`: what of the members is needed. */
export interface BlockHost<V extends OneMemberVolume, M = BlockMembers<V>> {
  readonly members: M;
  /** Where their records are. */
  readonly recordDirectory: string;
  readonly mounts: MountReader;
  readonly tools: Tools;
  readonly files: FilePort;
  readonly clock: Clock;
  readonly log: Logger;
  /** Of the shrinks on this node. */
  readonly moving: MovingRoom;
}

/**
 * What running steps of shrinks may still take of the places where members lie. Without it two that look at one place at the same moment
 * would both count on what is free there.
 */
export interface MovingRoom {
  /** Less what the steps of other members may take there. */
  left(room: MemberRoom | undefined): MemberRoom | undefined;
  /** For one step; the answer gives it back, as soon as the room shows what the step has taken. */
  take(room: MemberRoom | undefined, movedBytes: number): () => void;
}

export function createMovingRoom(): MovingRoom {
  const taken = new Set<{ readonly place: string; readonly bytes: number }>();
  return {
    left: (room) => {
      if (room === undefined) return undefined;
      const bytes = [...taken].reduce((sum, one) => (one.place === room.place ? sum + one.bytes : sum), 0);
      return { ...room, freeBytes: Math.max(0, room.freeBytes - bytes) };
    },
    take: (room, movedBytes) => {
      if (room === undefined) return () => undefined;
      const step = { place: room.place, bytes: Math.min(movedBytes, room.holeBytes) };
      taken.add(step);
      const giveBack = (): void => void taken.delete(step);
      return () => void (room.lagMs === 0 ? giveBack() : setTimeout(giveBack, room.lagMs).unref());
    },
  };
}
