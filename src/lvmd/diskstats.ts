// What devices have read and written, from /proc/diskstats (Documentation/admin-guide/iostats.rst).
import { readFileSync } from "node:fs";
import type { IoFigures } from "../gen/tidemark/lvmd/v1/lvmd.ts";
import type { DeviceNumber } from "./lvm/report.ts";

export interface DeviceFigures extends IoFigures {
  readonly discardedBytes: number;
}

/** By major:minor. */
export type DiskFigures = ReadonlyMap<string, DeviceFigures>;

const PATH = "/proc/diskstats";
/** Of this file, whatever the device's own is. */
const SECTOR_BYTES = 512;

export function readDiskFigures(): DiskFigures {
  return parseDiskFigures(readFileSync(PATH, "utf8"));
}

export function parseDiskFigures(text: string): DiskFigures {
  const figures = new Map<string, DeviceFigures>();
  for (const line of text.split("\n")) {
    const fields = line.trim().split(/\s+/);
    if (fields.length < 14) continue;
    const number = (index: number): number => Number(fields[index] ?? 0);
    figures.set(`${fields[0]}:${fields[1]}`, {
      reads: number(3),
      readBytes: number(5) * SECTOR_BYTES,
      writes: number(7),
      writtenBytes: number(9) * SECTOR_BYTES,
      busyMs: number(12),
      // Kernels before 4.18 do not count them.
      discardedBytes: number(16) * SECTOR_BYTES,
    });
  }
  return figures;
}

export function figuresOf(figures: DiskFigures, device: DeviceNumber | undefined): DeviceFigures | undefined {
  return device && figures.get(`${device.major}:${device.minor}`);
}
