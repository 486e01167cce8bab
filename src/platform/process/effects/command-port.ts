// The one place that starts other programs: by absolute path, with an argument array, never through a shell. Each run is an
// effect (or a query, which changes nothing), has a time limit, and never hangs its caller: a child in uninterruptible sleep
// outlives SIGKILL, so the limit is raced here and the child left behind, counted in `strandedChildren`.
import { type ChildProcessByStdio, spawn } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { readdir, readFile } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import type { Readable } from "node:stream";
import { setImmediate as nextTurn } from "node:timers/promises";
import { withTimeLimit } from "../async/limited-wait.ts";
import type { EffectPoint, Effects } from "./effects.ts";

export interface CommandResult {
  readonly exitCode: number;
  readonly stdout: string;
  readonly stderr: string;
}

export type CommandFailure = "NotFound" | "Failed" | "TimedOut" | "OutputTooLarge";

/** A program that could not be run to its end. A non-zero exit is not an error here: callers read `exitCode`. */
export class CommandError extends Error {
  override name = "CommandError";
  readonly code: CommandFailure;
  readonly command: string;
  /** Resolves when what was left behind has ended after all; for code TimedOut, OutputTooLarge and for an early end. */
  readonly gone: Promise<void>;

  constructor(
    code: CommandFailure,
    command: string,
    message: string,
    cause?: unknown,
    gone: Promise<void> = Promise.resolve(),
  ) {
    super(`${code}: ${command}: ${message}`, { cause });
    this.code = code;
    this.command = command;
    this.gone = gone;
  }
}

export interface CommandOptions {
  readonly timeLimitMs: number;
  /** Ends the child early; the call then rejects with "Failed". */
  readonly signal?: AbortSignal;
  /** Open files that the child inherits as its descriptors 3, 4, …. */
  readonly inherit?: readonly number[];
  /**
   * The program starts others that do the work (nsenter): at the time limit all of them are killed, and they count as left behind
   * until the last one has ended.
   */
  readonly withDescendants?: boolean;
  /** Of stdout and of stderr, each; default 1 MiB. */
  readonly outputLimitBytes?: number;
}

export interface CommandPort {
  /** Runs a program that changes something. */
  run(point: EffectPoint, path: `/${string}`, args: readonly string[], options: CommandOptions): Promise<CommandResult>;
  /** Runs a program that only reads. */
  query(path: `/${string}`, args: readonly string[], options: CommandOptions): Promise<CommandResult>;
  /** Children that outlived their time limit and SIGKILL. */
  strandedChildren(): number;
}

const OUTPUT_LIMIT_BYTES = 1 << 20;
// Programs read devices themselves: libblkid's cache still shows a filesystem for seconds after its loop device got another
// file, and mkfs then refuses the UUID as taken (measured on util-linux 2.38).
const ENVIRONMENT = { LC_ALL: "C", PATH: "/usr/sbin:/usr/bin:/sbin:/bin", BLKID_FILE: "/dev/null" };

export function createCommandPort(effects: Effects): CommandPort {
  let stranded = 0;
  const start = (path: `/${string}`, args: readonly string[], options: CommandOptions): Promise<CommandResult> =>
    runToEnd(path, args, options, (change) => {
      stranded += change;
    });
  return {
    run: (point, path, args, options) => effects.run(point, () => start(path, args, options)),
    query: start,
    strandedChildren: () => stranded,
  };
}

function runToEnd(
  path: `/${string}`,
  args: readonly string[],
  options: CommandOptions,
  countStranded: (change: 1 | -1) => void,
): Promise<CommandResult> {
  const command = [path, ...args].join(" ");
  const { outputLimitBytes = OUTPUT_LIMIT_BYTES } = options;
  return new Promise((resolve, reject) => {
    const child = spawn(path, args, {
      env: ENVIRONMENT,
      stdio: ["ignore", "pipe", "pipe", ...(options.inherit ?? [])],
      detached: options.withDescendants === true,
    }) as Child;
    const output = { stdout: "", stderr: "" };
    let settled = false;
    const settle = (finish: () => void): void => {
      if (settled) return;
      settled = true;
      clearTimeout(timer);
      options.signal?.removeEventListener("abort", abort);
      finish();
    };
    const giveUp = (code: CommandFailure, message: string): void => {
      countStranded(1);
      const gone = leaveBehind(child, options.withDescendants === true);
      void gone.then(() => countStranded(-1));
      settle(() => reject(new CommandError(code, command, message, undefined, gone)));
    };
    const abort = (): void => giveUp("Failed", "ended early by its caller");
    const timer = setTimeout(() => giveUp("TimedOut", `no end after ${options.timeLimitMs} ms`), options.timeLimitMs);
    if (options.signal?.aborted === true) abort();
    options.signal?.addEventListener("abort", abort, { once: true });
    for (const stream of ["stdout", "stderr"] as const) {
      child[stream].setEncoding("utf8").on("data", (text: string) => {
        if (settled) return;
        output[stream] += text;
        if (output[stream].length > outputLimitBytes)
          giveUp("OutputTooLarge", `more than ${outputLimitBytes} bytes of ${stream}`);
      });
    }
    child.once("error", (error: NodeJS.ErrnoException) => {
      settle(() =>
        reject(new CommandError(error.code === "ENOENT" ? "NotFound" : "Failed", command, error.message, error)),
      );
    });
    child.once("close", (exitCode, signal) => {
      settle(() =>
        exitCode === null
          ? reject(new CommandError("Failed", command, `ended by ${signal}`))
          : resolve({ exitCode, ...output }),
      );
    });
  });
}

type Child = ChildProcessByStdio<null, Readable, Readable>;

/** Kills it, and stops waiting; resolves when it is gone. */
function leaveBehind(child: Child, withDescendants: boolean): Promise<void> {
  const gone = new Promise<void>((resolve) => {
    // Descendants hold the pipes open for as long as they live.
    child.once(withDescendants ? "close" : "exit", () => resolve());
  });
  child.unref();
  if (withDescendants) {
    if (child.pid !== undefined) killGroup(child.pid);
    for (const stream of [child.stdout, child.stderr]) (stream as Readable & { unref(): void }).unref();
  } else {
    child.kill("SIGKILL");
    child.stdout.destroy();
    child.stderr.destroy();
  }
  return gone;
}

/** It leads a group of its own. */
function killGroup(pid: number): void {
  try {
    process.kill(-pid, "SIGKILL");
  } catch {
    // All of them have ended since.
  }
}

// The commands that run on this machine, as /proc shows them: a command may outlive the process that started it. Looking blocks the process
// for no longer than a slice of them takes.

interface RunningCommand {
  readonly pid: string;
  /** Of its command line, the program first; empty where it has ended since. Undefined: it cannot be read now. */
  readonly words: readonly string[] | undefined;
}

/** The kernel gives a command line only once the memory of its process is not being changed: it may wait for a process that hangs. */
const READ_LIMIT_MS = 1000;
/** On a machine that has no time, or behind other reads, each read takes long: one that hangs takes so many times as long as the next. */
const TIMES_AS_LONG = 10;
/** Whatever else takes long. */
const READ_LIMIT_MAX_MS = 10_000;
/** Read without a pause in between, a few microseconds each. */
const SLICE = 64;
/** The kernel keeps so much of a program's name. */
const NAME_LENGTH = 15;

/**
 * Each is read in its turn. `programs`: only those that were started by one of these names, which the kernel shows of any process.
 * `directory`: where the kernel shows processes.
 */
export async function* runningCommands(
  programs?: readonly string[],
  directory = "/proc",
): AsyncGenerator<RunningCommand, void> {
  const names = programs && new Set(programs.map((program) => basename(program).slice(0, NAME_LENGTH)));
  let read = 0;
  for (const pid of await readdir(directory)) {
    if (!/^\d+$/.test(pid)) continue;
    read += 1;
    if (read % SLICE === 0) await nextTurn();
    const path = join(directory, pid);
    if (names === undefined || names.has(nameOf(path))) yield { pid, words: await commandLine(join(path, "cmdline")) };
  }
}

/** Whether this process has begun it, itself or through others that still run. */
export function isBegunHere(pid: string): boolean {
  for (let ancestor = parentOf(pid); ancestor > 0; ancestor = parentOf(String(ancestor)))
    if (ancestor === process.pid) return true;
  return false;
}

/** 0: there is none, or the process has ended. */
function parentOf(pid: string): number {
  try {
    return Number(/^PPid:\s+(\d+)$/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1] ?? 0);
  } catch {
    return 0;
  }
}

/** Empty: it has ended since. */
function nameOf(path: string): string {
  try {
    return readFileSync(join(path, "comm"), "utf8").trimEnd();
  } catch {
    return "";
  }
}

type Words = readonly string[] | undefined;

/** By path, of reads that have not ended. One that does not end holds a thread of the pool, which has few: it is not begun a second time. */
const pendingReads = new Map<string, Promise<Words>>();

function commandLine(path: string): Promise<Words> {
  const pending = pendingReads.get(path);
  if (pending !== undefined) return pending;
  const words = readFile(path, "utf8")
    .then(
      (text) => text.split("\0"),
      () => [], // ended since
    )
    .finally(() => pendingReads.delete(path));
  const inTime = unlessHung(words, path);
  pendingReads.set(path, inTime);
  return inTime;
}

async function unlessHung(words: Promise<readonly string[]>, path: string): Promise<Words> {
  const startedMs = performance.now();
  const soon = await withTimeLimit<Words>(words, READ_LIMIT_MS, () => undefined);
  if (soon !== undefined) return soon;
  const limitMs = Math.min(TIMES_AS_LONG * (await usualReadMs()), READ_LIMIT_MAX_MS);
  const leftMs = Math.max(0, limitMs - (performance.now() - startedMs));
  // Empty where the process has ended by then: the kernel no longer shows its directory.
  return withTimeLimit<Words>(words, leftMs, () => (existsSync(dirname(path)) ? undefined : []));
}

/** How long a read takes now that waits for no other process, by the same threads. */
async function usualReadMs(): Promise<number> {
  const startedMs = performance.now();
  const read = readFile("/proc/self/comm").catch(() => undefined);
  await withTimeLimit<unknown>(read, READ_LIMIT_MAX_MS - READ_LIMIT_MS, () => undefined);
  return performance.now() - startedMs;
}
