// Devices as the kernel has them, read without asking LVM: a volume's number, true size and owner, and what was read and written.
import { existsSync, readFileSync } from "node:fs";
import { readFile, stat } from "node:fs/promises";
import type { IoFigures } from "../contracts/gen/tidemark/lvmd/v1/lvmd.ts";
import type { DeviceNumber } from "./lvm/report.ts";

interface DeviceNode {
  readonly device: DeviceNumber;
  readonly sizeBytes: number;
  /** The volume's, as LVM writes it; "" where device-mapper does not report it. */
  readonly uuid: string;
}

/** Of the kernel's figures, whatever the device's own is. */
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
 * Whether the number still belongs to this volume: a deactivated one returns it without a trace. A device outside of device-mapper is taken
 * at its word.
 */
export async function isDeviceOf(device: DeviceNumber | undefined, volumeUUID: string): Promise<boolean> {
  if (device === undefined) return false;
  const said = await readMapperUUID(device);
  if (said === undefined) return existsSync(sysPathOf(device));
  return volumeUUID !== "" && said.endsWith(volumeUUID.replaceAll("-", ""));
}

/**
 * "LVM-", the group's UUID and the volume's, without dashes; what LVM stores beneath a volume has a suffix. Undefined: the device is not of
 * device-mapper.
 */
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

/** The kernel's own name, which no renaming of a volume changes. Undefined: it is no longer active. */
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

// What devices have read and written, as the kernel counts it (Documentation/admin-guide/iostats.rst).

interface DeviceFigures extends IoFigures {
  readonly discardedBytes: number;
}

/** By major:minor. */
export type DiskFigures = ReadonlyMap<string, DeviceFigures>;

const PATH = "/proc/diskstats";
/** Major number, minor number, name. */
const FIELDS_OF_IDENTITY = 3;
/** Those that every kernel has. */
const FIGURES_MIN = 11;
/** The kernel's counters have 64 bits. */
const FIGURE = /^\d{1,20}$/;

export function readDiskFigures(): DiskFigures {
  return parseDiskFigures(readFileSync(PATH, "utf8"));
}

export function parseDiskFigures(text: string): DiskFigures {
  const all = new Map<string, DeviceFigures>();
  for (const line of text.split("\n")) {
    const fields = line.trim().split(/\s+/);
    const figures = deviceFigures(fields.slice(FIELDS_OF_IDENTITY));
    if (figures !== undefined) all.set(`${fields[0]}:${fields[1]}`, figures);
  }
  return all;
}

export function figuresOf(figures: DiskFigures, device: DeviceNumber | undefined): DeviceFigures | undefined {
  return device && figures.get(`${device.major}:${device.minor}`);
}

/** Of this device alone: a node has hundreds, and callers ask often. Undefined: it is no longer there. */
export function readFiguresOf(device: DeviceNumber | undefined): DeviceFigures | undefined {
  if (device === undefined) return undefined;
  try {
    const text = readFileSync(`/sys/dev/block/${device.major}:${device.minor}/stat`, "utf8");
    return deviceFigures(text.trim().split(/\s+/));
  } catch {
    return undefined; // as one that PATH does not have
  }
}

function deviceFigures(fields: readonly string[]): DeviceFigures | undefined {
  if (fields.length < FIGURES_MIN) return undefined;
  // A device with an unreadable figure is left out.
  if (!fields.every((field) => FIGURE.test(field))) return undefined;
  const number = (index: number): number => Number(fields[index] ?? 0);
  return {
    reads: number(0),
    readBytes: number(2) * SECTOR_BYTES,
    writes: number(4),
    writtenBytes: number(6) * SECTOR_BYTES,
    busyMs: number(9),
    // Kernels before 4.18 do not count them.
    discardedBytes: number(13) * SECTOR_BYTES,
  };
}
