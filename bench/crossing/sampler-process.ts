// The independent observer: looks at one filesystem every millisecond and says how long it stayed over its threshold before statfs
// showed a larger size. It is a process of its own and shares no code with what it observes.
//
// Lines on stdin: a Watch, or {"stop": true}. Lines on stdout: {"ready": true}, then one Seen for each crossing.
import { closeSync, openSync, readSync, statfsSync } from "node:fs";
import { createInterface } from "node:readline";

export interface Watch {
  readonly mountPath: string;
  readonly fsid: string;
  /** Crossed when used / capacity reaches it … */
  readonly usedRatio?: number;
  /** … or when fewer bytes than these are available. */
  readonly minAvailableBytes?: number;
}

export interface Seen {
  /** From the first look that was over the threshold to the first that showed a larger size. */
  readonly durationMs: number;
  /** Unix time. */
  readonly endedAtMs: number;
  readonly fromBytes: number;
  readonly toBytes: number;
}

const LOOK_INTERVAL_MS = 1;
const NUMBER_LENGTH_LIMIT = 32;

function startWatching(watch: Watch): () => void {
  const allocation = `/sys/fs/btrfs/${watch.fsid}/allocation/data`;
  const files = ["bytes_may_use", "bytes_reserved"].map((name) => openSync(`${allocation}/${name}`, "r"));
  const buffer = Buffer.alloc(NUMBER_LENGTH_LIMIT);
  const numberIn = (file: number): number =>
    Number(buffer.toString("latin1", 0, readSync(file, buffer, 0, NUMBER_LENGTH_LIMIT, 0)));
  let crossedAtMs: number | undefined;
  let lastCapacityBytes = 0;
  const look = (): void => {
    const reserved = files.reduce((sum, file) => sum + numberIn(file), 0);
    const { blocks, bavail, bsize } = statfsSync(watch.mountPath);
    const nowMs = performance.now();
    const [capacityBytes, availableBytes] = [blocks * bsize, bavail * bsize - reserved];
    if (crossedAtMs !== undefined && capacityBytes > lastCapacityBytes) {
      const seen: Seen = {
        durationMs: nowMs - crossedAtMs,
        endedAtMs: Date.now(),
        fromBytes: lastCapacityBytes,
        toBytes: capacityBytes,
      };
      process.stdout.write(`${JSON.stringify(seen)}\n`);
      crossedAtMs = undefined;
    }
    lastCapacityBytes = capacityBytes;
    if (isOver(watch, capacityBytes, availableBytes)) crossedAtMs ??= nowMs;
  };
  const timer = setInterval(look, LOOK_INTERVAL_MS);
  return () => {
    clearInterval(timer);
    for (const file of files) closeSync(file);
  };
}

function isOver({ usedRatio, minAvailableBytes }: Watch, capacityBytes: number, availableBytes: number): boolean {
  if (minAvailableBytes !== undefined) return availableBytes < minAvailableBytes;
  return (capacityBytes - availableBytes) / capacityBytes >= (usedRatio ?? 1);
}

let stop = (): void => undefined;
createInterface(process.stdin).on("line", (line) => {
  const order = JSON.parse(line) as Watch | { stop: true };
  stop();
  stop = "stop" in order ? () => undefined : startWatching(order);
  process.stdout.write('{"ready":true}\n');
});
process.stdin.on("end", () => process.exit(0));
