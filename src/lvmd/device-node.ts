// A volume's device as the kernel has it: its number, its true size and whose it is, read without asking LVM.
import { existsSync } from "node:fs";
import { readFile, stat } from "node:fs/promises";
import type { DeviceNumber } from "./lvm/report.ts";

export interface DeviceNode {
  readonly device: DeviceNumber;
  readonly sizeBytes: number;
  /** The volume's, as LVM writes it; "" where device-mapper does not tell. */
  readonly uuid: string;
}

const SECTOR_BYTES = 512;

/** Undefined: there is no block device at this path, or it is not to be read. */
export async function readDeviceNode(path: string): Promise<DeviceNode | undefined> {
  try {
    const found = await stat(path, { bigint: true });
    if (!found.isBlockDevice()) return undefined;
    const device = deviceNumber(found.rdev);
    const sectors = Number(await readFile(`${sysPathOf(device)}/size`, "utf8"));
    return { device, sizeBytes: sectors * SECTOR_BYTES, uuid: volumeUUIDOf(await readMapperUUID(device)) };
  } catch {
    return undefined; // the caller asks LVM
  }
}

/**
 * Whether the number is still this volume's: one that is deactivated gives it back, and nothing tells of that. A device that is none of
 * device-mapper's is taken at its word.
 */
export async function isDeviceOf(device: DeviceNumber | undefined, volumeUUID: string): Promise<boolean> {
  if (device === undefined) return false;
  const said = await readMapperUUID(device);
  if (said === undefined) return existsSync(sysPathOf(device));
  return volumeUUID !== "" && said.endsWith(volumeUUID.replaceAll("-", ""));
}

/** "LVM-", the group's UUID and the volume's, without dashes; what LVM keeps beneath a volume has a suffix. Undefined: none of device-mapper's. */
function readMapperUUID(device: DeviceNumber): Promise<string | undefined> {
  return readFile(`${sysPathOf(device)}/dm/uuid`, "utf8").then(
    (text) => text.trim(),
    () => undefined,
  );
}

/** lvs(8) writes it in groups. */
export function volumeUUIDOf(mapperUUID: string | undefined): string {
  const whole = /^LVM-[0-9a-zA-Z]{32}(.{6})(.{4})(.{4})(.{4})(.{4})(.{4})(.{6})$/.exec(mapperUUID ?? "");
  return whole === null ? "" : whole.slice(1).join("-");
}

function sysPathOf({ major, minor }: DeviceNumber): string {
  return `/sys/dev/block/${major}:${minor}`;
}

/** The kernel's own name, which no renaming of a volume changes. Undefined: it is not active any more. */
export async function kernelPathOf(device: DeviceNumber): Promise<string | undefined> {
  try {
    const name = /^DEVNAME=(.+)$/m.exec(await readFile(`${sysPathOf(device)}/uevent`, "utf8"))?.[1];
    return name === undefined ? undefined : `/dev/${name}`;
  } catch {
    return undefined;
  }
}

/** Whether a discard does anything on it: Linux' queue-sysfs. */
export async function discards(path: string): Promise<boolean> {
  const device = (await readDeviceNode(path))?.device;
  if (device === undefined) return false;
  const limit = `${sysPathOf(device)}/queue/discard_max_bytes`;
  return readFile(limit, "utf8").then(
    (text) => Number(text) > 0,
    () => false,
  );
}

/** glibc's gnu_dev_major and gnu_dev_minor. */
export function deviceNumber(rdev: bigint): DeviceNumber {
  return {
    major: Number(((rdev >> 8n) & 0xfffn) | ((rdev >> 32n) & 0xfffff000n)),
    minor: Number((rdev & 0xffn) | ((rdev >> 12n) & 0xffffff00n)),
  };
}
