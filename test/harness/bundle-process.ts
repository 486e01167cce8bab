// One process of the bundle, as a user runs it: a child in a group of its own, whose log goes to a file of the run directory. It
// can be ended gently or by SIGKILL, and started again with another environment.
import { type ChildProcess, spawn } from "node:child_process";
import { closeSync, existsSync, openSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { recordProcess } from "../../demo/show/run/run-directory.ts";

/** TIDEMARK_BUNDLE names another build, such as an image's. */
export const BUNDLE_PATH =
  process.env["TIDEMARK_BUNDLE"] ?? fileURLToPath(new URL("../../dist/tidemark.mjs", import.meta.url));
/** The demo's, of this tree: no image has it. */
export const DEMO_PATH = fileURLToPath(new URL("../../dist/demo/demo.mjs", import.meta.url));

export interface ProcessEnd {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

export type Environment = Readonly<Record<string, string>>;

export interface BundleProcess {
  readonly name: string;
  readonly pid: number;
  /**
   * Starts it, with the environment of its last start when none is given; it must not be running. `before` are programs that start
   * it in their turn, such as strace.
   */
  start(environment?: Environment, before?: readonly string[]): void;
  running(): boolean;
  /** Resolves when the present process has ended. */
  ended(): Promise<ProcessEnd>;
  /** SIGTERM, and waits. */
  stop(): Promise<ProcessEnd>;
  /** SIGKILL, and waits. */
  kill(): Promise<ProcessEnd>;
  signal(signal: NodeJS.Signals): void;
  firstLine(): Promise<string>;
  /** Everything that it has logged, over all its starts. */
  log(): string;
}

/** `program`: the bundle of all processes, or of the demo. `always`: of each start, unless the start says otherwise. */
export function createBundleProcess(
  directory: string,
  name: string,
  args: readonly string[],
  program: string = BUNDLE_PATH,
  always: Environment = {},
): BundleProcess {
  const logPath = join(directory, `${name}.log`);
  let child: ChildProcess | undefined;
  let end: Promise<ProcessEnd> = Promise.resolve({ code: 0, signal: null });
  let isRunning = false;
  let lastEnvironment: Environment = {};
  let line: Promise<string> = Promise.reject(new Error(`${name} was not started`));
  line.catch(() => undefined);

  const log = (): string => (existsSync(logPath) ? readFileSync(logPath, "utf8") : "");
  const endBy = async (signal: NodeJS.Signals): Promise<ProcessEnd> => {
    if (isRunning) child?.kill(signal);
    return end;
  };
  return {
    name,
    get pid() {
      return child?.pid ?? 0;
    },
    start: (environment = lastEnvironment, before = []) => {
      if (isRunning) throw new Error(`${name} is running`);
      lastEnvironment = environment;
      const stderr = openSync(logPath, "a");
      const [command = process.execPath, ...rest] = [...before, process.execPath, program, ...args];
      const started = spawn(command, rest, {
        env: { PATH: process.env["PATH"], ...always, ...environment },
        stdio: ["ignore", "pipe", stderr],
        detached: true,
      });
      closeSync(stderr);
      if (started.pid !== undefined) recordProcess(directory, started.pid);
      child = started;
      isRunning = true;
      end = new Promise((resolve) => {
        started.once("exit", (code, signal) => {
          isRunning = false;
          resolve({ code, signal });
        });
      });
      line = firstLineOf(started, name, log);
      line.catch(() => undefined);
    },
    running: () => isRunning,
    ended: () => end,
    stop: () => endBy("SIGTERM"),
    kill: () => endBy("SIGKILL"),
    signal: (signal) => {
      child?.kill(signal);
    },
    firstLine: () => line,
    log,
  };
}

function firstLineOf(child: ChildProcess, name: string, log: () => string): Promise<string> {
  return new Promise((resolve, reject) => {
    if (child.stdout === null) throw new Error(`${name} has no stdout`);
    createInterface(child.stdout).once("line", resolve);
    child.once("exit", () => reject(new Error(`${name} ended before it said anything:\n${log()}`)));
  });
}
