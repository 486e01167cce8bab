// What devices have read and written, as the kernel counts it (Documentation/admin-guide/iostats.rst).
import { readFileSync } from "node:fs";
import type { IoFigures } from "../gen/tidemark/lvmd/v1/lvmd.ts";
import type { DeviceNumber } from "./lvm/report.ts";

export interface DeviceFigures extends IoFigures {
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
/** Here, whatever the device's own is. */
const SECTOR_BYTES = 512;

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

/** Of this device alone: a node has hundreds, and a volume is asked for often. Undefined: it is not there any more. */
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
  // What is no figure is not counted as one: the device is left out.
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
