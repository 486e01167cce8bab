// What btrfs says of each of its devices: read from `btrfs device usage`, whose figures come from the kernel at that moment.
import { deviceNameOf } from "../../member-drivers/block-device.ts";
import { type MountedSpan, StorageError } from "../storage.ts";
import { expectSuccess, type Tools } from "../tools.ts";

export interface DeviceUsage extends ToldUsage {
  /** As sysfs calls the device. */
  readonly deviceName: string;
}

export interface ToldUsage {
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

/** A device of which a figure is missing, or is none, is left out: what is not known is never 0. */
export function parseDeviceUsage(text: string): ToldUsage[] {
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
