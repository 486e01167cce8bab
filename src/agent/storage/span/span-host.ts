// What the span adapter's steps work with: this node's programs, files and members' devices, and the record on the node's disk. The record
// says how far the one formatting has come, which members are on their way out (R1), and so which are left; it is written before each step
// that it describes. Nothing is decided here.

import { join } from "node:path";
import * as z from "zod";
import { FS_TYPES } from "../../../contracts/kinds/filesystem-layout.ts";
import { shortList } from "../../../contracts/schema/schema.ts";
import type { Clock } from "../../../platform/process/clock.ts";
import type { FilePort } from "../../../platform/process/effects/file-port.ts";
import type { Logger } from "../../../platform/process/log.ts";
import { describeAwaited, isAttached, type SpanMember } from "../../member-drivers/span-member.ts";
import { readRecord } from "../block/member-record.ts";
import type { BlockDevice } from "../filesystem/devices-and-mounts.ts";
import type { MountReader } from "../filesystem/mount-reader.ts";
import type { MountedSpan, SpanVolume } from "../storage.ts";
import { StorageError } from "../storage-error.ts";
import type { Tools } from "../tools.ts";

export interface SpanHost {
  /** Where the node remembers how far a span's formatting and removals have come. */
  readonly recordDirectory: string;
  readonly devices: MemberDevices;
  readonly mounts: MountReader;
  readonly tools: Tools;
  readonly files: FilePort;
  readonly clock: Clock;
  readonly log: Logger;
  /** Of devices in mounted filesystems, by volume, member and devid. */
  readonly deviceUUIDs: Map<string, string>;
  /** Of spares that this process has prepared, by volume and member. */
  readonly spares: Map<string, BlockDevice>;
  /** Of members whose devices were not used at their last check, by volume and member. */
  readonly refused: Map<string, RefusedDevice>;
}

export interface RefusedDevice {
  readonly why: string;
  /** When it was checked, on the monotonic clock. */
  readonly lookedMs: number;
}

/** By which `spares` and `refused` know a member of a volume. */
export function memberKey({ handle }: Pick<SpanVolume, "handle">, { name }: Pick<SpanMember, "name">): string {
  return `${handle}/${name}`;
}

/**
 * All are idempotent, and what calls a driver runs one at a time for each member. Throw StorageError; a signal that aborts ends only the
 * wait for the driver.
 */
export interface MemberDevices {
  /**
   * The device, if it is published already, in this boot. Throws MembersMissing when its disk has vanished, also where another disk has its
   * number by now.
   */
  find(handle: string, name: string): BlockDevice | undefined;
  /** Whether it is published, in this boot, and its disk is no longer there. */
  hasVanished(handle: string, name: string): boolean;
  /** Whether the disk there is known to be the one that the driver has brought. */
  isAsBrought(handle: string, name: string): boolean;
  /** Of one that is known to be the member's, in this boot: an earlier version has published it, and noted neither boot nor disk. */
  note(handle: string, name: string): Promise<void>;
  /** Has the driver stage and publish it, also where it has before. Throws WaitingForMember while it is not attached here. */
  publish(handle: string, member: SpanMember, signal?: AbortSignal): Promise<BlockDevice>;
  /** Has the driver make the published device as large as its volume has become. */
  expand(handle: string, member: SpanMember, sizeBytes: number): Promise<void>;
  /** Gives it back to the driver; what is left of it here is nothing. */
  unpublish(handle: string, member: SpanMember, signal?: AbortSignal): Promise<void>;
}

export interface MemberDevice {
  readonly member: SpanMember;
  readonly device: BlockDevice;
}

/** What presentMember has read of the member: before its device is added, as it gets another UUID each time. */
export function forgetIdentity(
  { deviceUUIDs }: Pick<SpanHost, "deviceUUIDs">,
  { handle }: Pick<MountedSpan, "handle">,
  { name }: Pick<SpanMember, "name">,
): void {
  for (const key of deviceUUIDs.keys()) if (key.startsWith(`${handle}/${name}/`)) deviceUUIDs.delete(key);
}

/** Far more than a volume has members. */
const REMOVALS_LIMIT = 256;

const removal = z.object({
  member: z.string(),
  devid: z.int(),
  deviceUUID: z.string(),
  /** What its driver calls it, and the UID of its PersistentVolume where that is known; absent in records of earlier versions. */
  volume: z
    .object({ driver: z.string(), volumeHandle: z.string(), persistentVolumeUID: z.string().optional() })
    .optional(),
  /** The number of the leader that it is done for. */
  epoch: z.int().optional(),
  /** Of the device, bytes: messages show it to people until the layout forgets the member. */
  sizeBytes: z.int(),
  /** leaving: data may still be moved off it. released: out of the filesystem, wiped, given back to its driver. */
  state: z.enum(["leaving", "released"]),
});
export type Removal = z.infer<typeof removal>;

const spanStorageRecord = z.object({
  volumeUID: z.string(),
  fsid: z.string(),
  fsType: z.enum(FS_TYPES),
  /** formatting: mkfs may have begun. formatted: it has ended well. mounted: data may be on it. */
  state: z.enum(["formatting", "formatted", "mounted"]),
  removals: shortList(removal, REMOVALS_LIMIT),
});
export type SpanStorageRecord = z.infer<typeof spanStorageRecord>;

const SUFFIX = ".span.json";

export function spanRecordPath({ recordDirectory }: Pick<SpanHost, "recordDirectory">, { handle }: SpanVolume): string {
  return join(recordDirectory, `${handle}${SUFFIX}`);
}

export function spanRecordText(record: SpanStorageRecord): string {
  return `${JSON.stringify(record, null, 2)}\n`;
}

export function readSpanRecord(
  host: Pick<SpanHost, "recordDirectory">,
  volume: SpanVolume,
): SpanStorageRecord | undefined {
  return readRecord(spanRecordPath(host, volume), spanStorageRecord, volume.handle);
}

/** Replaces what is recorded of this removal. Removals of members that have left the layout are dropped: no name comes again. */
export function withRemoval(
  volume: SpanVolume,
  record: SpanStorageRecord | undefined,
  removal: Removal,
): SpanStorageRecord {
  const names = new Set(volume.members.map(({ name }) => name));
  const others = record?.removals.filter(({ member }) => member !== removal.member && names.has(member)) ?? [];
  const { volumeUID, fsid, fsType } = volume;
  return { volumeUID, fsid, fsType, state: record?.state ?? "mounted", removals: [...others, removal] };
}

export function withoutRemoval(record: SpanStorageRecord, { member }: Removal): SpanStorageRecord {
  return { ...record, removals: record.removals.filter((removal) => removal.member !== member) };
}

type RecordedMember = Pick<SpanMember, "name" | "wasInside" | "reported" | "volume" | "persistentVolumeUID">;

/**
 * Of the volume and the device that it is now. Where etcd was put back to before a member was named, its name is given again: what is recorded
 * of the former one's volume says nothing of the present one, which may not have any yet. One that was taken out and added again, on another
 * node for one, has got another UUID by that: what is recorded of its former life says nothing of it. Nor is one believed that was given back,
 * where a node has found it in the filesystem and did not say as which device; or of which no device is recorded, since it was never in the
 * filesystem then, where one is reported by now.
 */
export function removalOf(record: SpanStorageRecord | undefined, member: RecordedMember): Removal | undefined {
  const { name, wasInside, reported } = member;
  const removal = record?.removals.find((each) => each.member === name);
  if (removal === undefined || !isOfVolume(removal, member)) return undefined;
  if (reported === undefined) return wasInside && removal.state === "released" ? undefined : removal;
  return removal.deviceUUID === reported.deviceUUID ? removal : undefined;
}

/** Where an earlier version has recorded no volume there is nothing to compare with; this one does so of a member that has none. */
function isOfVolume({ volume: recorded, epoch }: Removal, { volume, persistentVolumeUID }: RecordedMember): boolean {
  if (recorded === undefined) return epoch === undefined || volume === undefined;
  const uids = new Set([recorded.persistentVolumeUID, persistentVolumeUID].filter((uid) => uid !== undefined));
  return recorded.driver === volume?.driver && recorded.volumeHandle === volume.volumeHandle && uids.size < 2;
}

/** Without those that have been given back; one that shall leave may still hold data. */
export function membersLeft(host: SpanHost, volume: SpanVolume): readonly SpanMember[] {
  const record = readSpanRecord(host, volume);
  return volume.members.filter((member) => removalOf(record, member)?.state !== "released");
}

/** Throws WaitingForMember, which names those that are not. */
export function assertAttached({ handle }: SpanVolume, members: readonly SpanMember[]): void {
  const awaited = members.filter((member) => !isAttached(member));
  if (awaited.length === 0) return;
  throw new StorageError("WaitingForMember", `${handle} waits for ${awaited.map(describeAwaited).join(" and ")}`);
}
