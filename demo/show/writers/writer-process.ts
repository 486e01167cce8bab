// The unaware writer, a process of its own: it writes checksummed files on a schedule of its own and keeps to it, as an
// application would. It knows nothing of Tidemark and never waits for it; deletions and changes of rate are its workload.
import { spawn } from "node:child_process";
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { pause } from "../../../src/platform/process/async/pause.ts";
import { readWriterConfig, type WriterConfig } from "../config.ts";
import { onLines } from "./line-stream.ts";
import { createOfferedLoad } from "./open-loop.ts";
import { checkRoom } from "./simulated-room.ts";
import { parseCommand, type WriterCommand, type WriterReport } from "./writer-protocol.ts";
import { createWrittenFile, type WrittenFile } from "./written-file.ts";

const CHUNK_BYTES = 256 * 1024;
/** Behind its schedule it writes in larger pieces, as a full buffer would. */
const LATE_CHUNK_BYTES = 1024 * 1024;
const PROGRESS_INTERVAL_MS = 200;
/** The longest sleep between two looks at the commands. */
const NAP_MS = 20;
/** After a refused write, so that a full disk is not hammered; the schedule goes on. */
const REFUSED_PAUSE_MS = 50;

interface LiveFile {
  readonly name: string;
  readonly bytes: number;
}

interface Writing {
  readonly config: WriterConfig;
  readonly load: ReturnType<typeof createOfferedLoad>;
  readonly commands: WriterCommand[];
  readonly live: LiveFile[];
  filesBegun: number;
  file: WrittenFile | undefined;
  /** All bytes ever written: the schedule's measure. */
  writtenBytes: number;
  liveBytes: number;
  maxWriteStallMs: number;
  stopped: boolean;
}

/** The demo's command `writer`: runs until it gets the command to stop, its stdin ends, or (with --stop-when-full) the disk is full. */
export async function runDemoWriter(args: readonly string[]): Promise<void> {
  const config = readWriterConfig(args);
  const writing: Writing = {
    config,
    load: createOfferedLoad(config.bytesPerSecond, performance.now()),
    commands: [],
    live: [],
    filesBegun: 0,
    file: undefined,
    writtenBytes: 0,
    liveBytes: 0,
    maxWriteStallMs: 0,
    stopped: false,
  };
  onLines(process.stdin, (line) => writing.commands.push(parseCommand(line)));
  process.stdin.on("end", () => writing.commands.push({ stop: true }));
  const progress = setInterval(() => reportProgress(writing), PROGRESS_INTERVAL_MS);
  while (!writing.stopped) await turn(writing);
  clearInterval(progress);
  reportProgress(writing);
  process.stdin.destroy();
}

async function turn(writing: Writing): Promise<void> {
  const command = writing.commands.shift();
  if (command !== undefined) return obey(writing, command);
  const nowMs = performance.now();
  const waitMs = writing.load.dueMs(writing.writtenBytes + CHUNK_BYTES) - nowMs;
  if (waitMs > 0) return pause(Math.min(waitMs, NAP_MS));
  const late = writing.load.dueMs(writing.writtenBytes + LATE_CHUNK_BYTES) <= nowMs;
  const fileLeftBytes = writing.config.fileBytes - (writing.file?.writtenBytes() ?? 0);
  await writeChunk(writing, Math.min(fileLeftBytes, late ? LATE_CHUNK_BYTES : CHUNK_BYTES));
}

async function obey(writing: Writing, command: WriterCommand): Promise<void> {
  if ("rate" in command) {
    writing.load.changeRate(command.rate, writing.writtenBytes, performance.now());
  } else if ("deleteOldest" in command) {
    await deleteOldest(writing, command.deleteOldest);
  } else {
    await giveUpFile(writing);
    writing.stopped = true;
  }
}

async function writeChunk(writing: Writing, bytes: number): Promise<void> {
  const startMs = performance.now();
  try {
    await checkRoom(writing.config.capacityFile, writing.liveBytes + bytes);
    writing.file ??= await beginFile(writing);
    await writing.file.append(bytes);
  } catch (error) {
    await refused(writing, error as NodeJS.ErrnoException);
    return;
  } finally {
    writing.maxWriteStallMs = Math.max(writing.maxWriteStallMs, performance.now() - startMs);
  }
  writing.writtenBytes += bytes;
  writing.liveBytes += bytes;
  if (writing.file.writtenBytes() >= writing.config.fileBytes) await finishFile(writing, writing.file);
}

function beginFile(writing: Writing): Promise<WrittenFile> {
  const number = writing.filesBegun;
  writing.filesBegun += 1;
  const name = `${String(number).padStart(6, "0")}.bin`;
  return createWrittenFile(join(writing.config.directory, name), name, writing.config.seed, number);
}

async function finishFile(writing: Writing, file: WrittenFile): Promise<void> {
  writing.file = undefined;
  const bytes = file.writtenBytes();
  writing.live.push({ name: file.name, bytes });
  report({ kind: "file", name: file.name, bytes, sha256: await file.finish() });
}

async function refused(writing: Writing, error: NodeJS.ErrnoException): Promise<void> {
  const code = error.code ?? error.name;
  report({ kind: "error", atMs: Date.now(), code, message: error.message });
  await giveUpFile(writing);
  if (code === "ENOSPC" && writing.config.stopWhenFull) writing.stopped = true;
  else await pause(REFUSED_PAUSE_MS);
}

async function giveUpFile(writing: Writing): Promise<void> {
  const file = writing.file;
  if (file === undefined) return;
  writing.file = undefined;
  writing.liveBytes -= file.writtenBytes();
  await file.abandon().catch(() => undefined);
  await rm(join(writing.config.directory, file.name), { force: true }).catch(() => undefined);
}

// A careful application syncs after it has thrown data away; btrfs would show the room only at its next commit, up to 30 s later. The sync
// runs in parallel with the writing.
async function deleteOldest(writing: Writing, bytes: number): Promise<void> {
  let deletedBytes = 0;
  while (deletedBytes < bytes) {
    const oldest = writing.live.shift();
    if (oldest === undefined) break;
    await rm(join(writing.config.directory, oldest.name));
    deletedBytes += oldest.bytes;
    writing.liveBytes -= oldest.bytes;
    report({ kind: "deleted", name: oldest.name });
  }
  spawn("/usr/bin/sync", ["--file-system", writing.config.directory], { stdio: "ignore" }).on("error", (error) =>
    report({ kind: "error", atMs: Date.now(), code: "SYNC", message: error.message }),
  );
}

function reportProgress(writing: Writing): void {
  report({
    kind: "progress",
    writtenBytes: writing.writtenBytes,
    liveBytes: writing.liveBytes,
    maxWriteStallMs: writing.maxWriteStallMs,
  });
}

function report(line: WriterReport): void {
  process.stdout.write(`${JSON.stringify(line)}\n`);
}
