// What btrfs says of each of its devices: which device of which filesystem a member is, by its first superblock, whether it is the reported
// one, and how much of it is used. Read by programs of their own: a device across a network may never answer, and must not take the agent
// along.

import { type BlockDevice, deviceNameOf } from "../filesystem/devices-and-mounts.ts";
import type { MountedSpan } from "../storage.ts";
import { StorageError } from "../storage-error.ts";
import { expectSuccess, type Tools } from "../tools.ts";
import type { DeviceIdentity } from "./decide-mount.ts";
import type { MemberDevice } from "./span-host.ts";

const READ_LIMIT_MS = 20_000;
const FIELD = /^(magic|fsid|generation|num_devices|dev_item\.uuid|dev_item\.devid)\s+(.*)$/;

/** Undefined when the device carries nothing where the superblock is, or nothing of this filesystem. */
export async function identityWithin(
  tools: Tools,
  fsid: string,
  { path }: BlockDevice,
): Promise<DeviceIdentity | undefined> {
  // --force: also where the magic number is missing.
  const told = await tools.query("btrfs", ["inspect-internal", "dump-super", "--force", path], READ_LIMIT_MS);
  return parseSuperblock(expectSuccess(told, `reading the superblock of ${path}`), fsid);
}

/** Of another filesystem, or with a field missing: undefined. */
export function parseSuperblock(text: string, fsid: string): DeviceIdentity | undefined {
  const fields = new Map<string, string>();
  for (const line of text.split("\n")) {
    const [, name, value] = FIELD.exec(line) ?? [];
    if (name !== undefined && value !== undefined) fields.set(name, value);
  }
  const deviceUUID = fields.get("dev_item.uuid");
  const [devid, generation, deviceCount] = ["dev_item.devid", "generation", "num_devices"].map((name) =>
    numberOf(fields.get(name)),
  );
  if (fields.get("fsid") !== fsid || deviceUUID === undefined) return undefined;
  if (devid === undefined || generation === undefined || deviceCount === undefined) return undefined;
  if (![devid, generation, deviceCount].every(Number.isSafeInteger)) return undefined;
  return { devid, deviceUUID, generation, deviceCount, valid: fields.get("magic")?.endsWith("[match]") === true };
}

function numberOf(text = ""): number {
  return /^\d+$/.test(text) ? Number(text) : Number.NaN;
}

/**
 * Whether the device that is found where a member's driver has published it is the one that it was: a path may lead to another disk after a
 * reboot. Pure; throws WrongFilesystem, and the caller then touches nothing. `identity`: of a device that carries this volume's filesystem.
 * Where nothing was ever reported there is nothing to compare with.
 */
export function assertReportedDevice(
  { member }: MemberDevice,
  { deviceUUID, devid }: Pick<DeviceIdentity, "deviceUUID" | "devid">,
): void {
  const { reported } = member;
  if (reported === undefined || (reported.deviceUUID === deviceUUID && reported.devid === devid)) return;
  throw new StorageError(
    "WrongFilesystem",
    `check the driver of ${member.claim}: device ${devid} (${deviceUUID}) came, not ${reported.devid} (${reported.deviceUUID})`,
  );
}

export interface DeviceUsage extends ReportedUsage {
  /** As sysfs calls the device. */
  readonly deviceName: string;
}

export interface ReportedUsage {
  /** As btrfs calls the device: by any of its names, e.g. /dev/mapper/pool-m1. */
  readonly path: string;
  readonly devid: number;
  /** Of the part that the filesystem uses. */
  readonly sizeBytes: number;
  readonly unallocatedBytes: number;
}

const HEAD = /^(\/\S+), ID: (\d+)$/;
const FIGURE = /^\s+(Device size|Device slack|Unallocated):\s+(\d+)$/;

export async function readDeviceUsage(tools: Tools, volume: MountedSpan): Promise<DeviceUsage[]> {
  const told = await tools.query("btrfs", ["device", "usage", "--raw", volume.mountPath]);
  const task = `asking btrfs ${volume.fsid} of ${volume.handle} for its devices`;
  const devices = parseDeviceUsage(expectSuccess(told, task));
  if (devices.length === 0) throw new StorageError("CommandFailed", `${task}: it names none: "${told.stdout.trim()}"`);
  return devices.map((each) => ({ ...each, deviceName: deviceNameOf(each.path) }));
}

/** A device with a figure that is missing or unreadable is left out: what is not known is never 0. */
export function parseDeviceUsage(text: string): ReportedUsage[] {
  const devices: { path: string; devid: number; figures: Map<string, number> }[] = [];
  for (const line of text.split("\n")) {
    const head = HEAD.exec(line);
    if (head !== null) devices.push({ path: head[1] ?? "", devid: Number(head[2]), figures: new Map() });
    const figure = FIGURE.exec(line);
    if (figure !== null) devices.at(-1)?.figures.set(figure[1] ?? "", Number(figure[2]));
  }
  return devices.flatMap(({ path, devid, figures }) => {
    const sizeBytes = figures.get("Device size");
    const slackBytes = figures.get("Device slack");
    const unallocatedBytes = figures.get("Unallocated");
    if (sizeBytes === undefined || slackBytes === undefined || unallocatedBytes === undefined) return [];
    if (![devid, sizeBytes, unallocatedBytes].every(Number.isSafeInteger) || slackBytes > sizeBytes) return [];
    return [{ path, devid, sizeBytes: sizeBytes - slackBytes, unallocatedBytes }];
  });
}
