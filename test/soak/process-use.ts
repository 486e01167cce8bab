// What a process holds of the machine, read from the kernel; and whether a series of it grows.
import { readdirSync, readFileSync } from "node:fs";

export interface ProcessUse {
  readonly rssBytes: number;
  /** Open file descriptors. */
  readonly descriptors: number;
  readonly threads: number;
}

const KIB = 1024;

export function processUse(pid: number): ProcessUse {
  const status = readFileSync(`/proc/${pid}/status`, "utf8");
  const field = (name: string): number => Number(new RegExp(`^${name}:\\s+(\\d+)`, "m").exec(status)?.[1]);
  return {
    rssBytes: field("VmRSS") * KIB,
    descriptors: readdirSync(`/proc/${pid}/fd`).length,
    threads: field("Threads"),
  };
}

export interface Growth {
  readonly early: ProcessUse;
  readonly late: ProcessUse;
}

/** The median use of the second quarter of the samples, by when a process has all that it will have, and that of the last quarter. */
export function growthOf(samples: readonly ProcessUse[]): Growth {
  const quarter = Math.floor(samples.length / 4);
  return { early: medianOf(samples.slice(quarter, 2 * quarter)), late: medianOf(samples.slice(-quarter)) };
}

function medianOf(samples: readonly ProcessUse[]): ProcessUse {
  const median = (read: (use: ProcessUse) => number): number => {
    const sorted = samples.map(read).sort((a, b) => a - b);
    return sorted[Math.floor(sorted.length / 2)] ?? Number.NaN;
  };
  return {
    rssBytes: median(({ rssBytes }) => rssBytes),
    descriptors: median(({ descriptors }) => descriptors),
    threads: median(({ threads }) => threads),
  };
}
