// The agent's mount reader over threads of the bundle. Named from the work tree and not from this file, which is bundled into programs that
// stand elsewhere. Its idle threads keep no test and no program from ending.
import { execFileSync } from "node:child_process";
import { closeSync, existsSync, mkdtempSync, openSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { pino } from "pino";
import {
  createThreadedMountReader,
  type ThreadedMountReader,
} from "../../src/agent/storage/filesystem/threaded-mount-reader.ts";
import { systemClock } from "../../src/platform/process/clock.ts";

const BUNDLE_DIRECTORY = dirname(process.env["TIDEMARK_BUNDLE"] ?? resolve("dist/tidemark.mjs"));
const WORKER_PATH = resolve(BUNDLE_DIRECTORY, "mount-reader.mjs");

export function mountReaderUnderTest(workerPath = WORKER_PATH): ThreadedMountReader {
  const log = pino({ level: process.env["LOG_LEVEL"] ?? "silent" });
  return createThreadedMountReader({ workerPath, clock: systemClock, log });
}

export interface HangingMountReader extends ThreadedMountReader {
  /** From now on a statfs of this path waits in the kernel; commands on it do not. */
  hang(mountPath: string): void;
  isHanging(mountPath: string): boolean;
  /** All that waits goes on. */
  release(): void;
  /** Releases, stops, and removes what it has made. */
  cleanUp(): Promise<void>;
}

/** The agent's, in whose threads statfs can be made to open a pipe that has no writer: nothing but the kernel ends that. */
export function createHangingMountReader(): HangingMountReader {
  const directory = mkdtempSync(join(tmpdir(), "tidemark-hanging-"));
  const workerPath = join(directory, "worker.mjs");
  writeFileSync(workerPath, hangingWorker(directory));
  const reader = mountReaderUnderTest(workerPath);
  const hanging: string[] = [];
  const release = (): void => {
    for (const pipe of hanging.splice(0)) {
      const writer = openSync(pipe, "r+");
      rmSync(pipe);
      closeSync(writer);
    }
  };
  return {
    ...reader,
    hang: (mountPath) => {
      const pipe = join(directory, encodeURIComponent(mountPath));
      if (existsSync(pipe)) return;
      execFileSync("mkfifo", [pipe]);
      hanging.push(pipe);
    },
    isHanging: (mountPath) => existsSync(join(directory, encodeURIComponent(mountPath))),
    release,
    cleanUp: async () => {
      release();
      await reader.stop();
      rmSync(directory, { recursive: true });
    },
  };
}

function hangingWorker(directory: string): string {
  return `
import fs from "node:fs";
import { syncBuiltinESMExports } from "node:module";
const { existsSync, openSync, closeSync, statfsSync } = fs;
fs.statfsSync = (path, ...rest) => {
  const pipe = ${JSON.stringify(`${directory}/`)} + encodeURIComponent(path);
  if (existsSync(pipe)) closeSync(openSync(pipe, "r"));
  return statfsSync(path, ...rest);
};
syncBuiltinESMExports();
await import(${JSON.stringify(pathToFileURL(WORKER_PATH).href)});
`;
}
