// Programs that outlive the command which started them, each recorded under a name. A program writes its own record before it
// becomes what it is, so that there is no moment at which one runs unrecorded; the record has its start time, so that a pid which
// the kernel gave to somebody else is never signalled.
import { spawn } from "node:child_process";
import { closeSync, openSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { isAlive, type ProcessIdentity } from "../../demo/show/run/process-table.ts";
import { eventually, waitFor } from "../harness/wait-for.ts";
import { type ClusterPlaces, logOf } from "./places.ts";
import { programEnvironment } from "./run-program.ts";

const END_LIMIT_MS = 30_000;
const POLL_INTERVAL_MS = 10;

/** exec keeps pid and start time. */
const RECORD_AND_BECOME = `read -r stat < /proc/$$/stat && printf '%s\\n' "$stat" > "$1" && shift && exec "$@"`;

export interface Program {
  readonly name: string;
  readonly command: string;
  readonly args: readonly string[];
  /** Has an IPC channel to the starter, over which it may be given sockets. */
  readonly ipc?: boolean;
}

/** Starts it in a session of its own, unless it runs; its output is appended to its log. Resolves when it is recorded. */
export async function startRecorded(
  places: ClusterPlaces,
  program: Program,
): Promise<ReturnType<typeof spawn> | undefined> {
  if (runningProcess(places, program.name) !== undefined) return undefined;
  const record = recordOf(places, program.name);
  rmSync(record, { force: true });
  const log = openSync(logOf(places, program.name), "a");
  const child = spawn("/bin/sh", ["-c", RECORD_AND_BECOME, program.name, record, program.command, ...program.args], {
    detached: true,
    stdio: ["ignore", log, log, ...(program.ipc === true ? (["ipc"] as const) : [])],
    env: programEnvironment(),
  });
  closeSync(log);
  child.unref();
  child.on("error", () => undefined); // waiting for the record tells it
  await waitFor(`${program.name} to start`, () => recordedIdentity(places, program.name), {
    intervalMs: POLL_INTERVAL_MS,
    otherwise: () => lastLines(places, program.name),
  });
  return child;
}

/** Undefined when it was never started or has ended. */
export function runningProcess(places: ClusterPlaces, name: string): ProcessIdentity | undefined {
  const identity = recordedIdentity(places, name);
  return identity !== undefined && isAlive(identity) ? identity : undefined;
}

/** Names of all that were started and not ended by `endRecorded`, whether or not they run. */
export function recordedNames(places: ClusterPlaces): string[] {
  try {
    return readdirSync(places.processes);
  } catch {
    return []; // no cluster was ever here
  }
}

/** Ends it and waits for that; after `limitMs` by SIGKILL. Idempotent. */
export async function endRecorded(
  places: ClusterPlaces,
  name: string,
  signal: "SIGTERM" | "SIGKILL",
  limitMs = END_LIMIT_MS,
): Promise<void> {
  const running = runningProcess(places, name);
  if (
    running !== undefined &&
    !(await endsAfter(running, signal, limitMs)) &&
    !(await endsAfter(running, "SIGKILL", limitMs))
  )
    throw new Error(`${name} (pid ${running.pid}) does not end, not even by SIGKILL: see /proc/${running.pid}/stack`);
  rmSync(recordOf(places, name), { force: true });
}

/** The same for a program that only waits for its child: the child is signalled, and what is recorded ends after it. */
export async function endRecordedChild(
  places: ClusterPlaces,
  name: string,
  signal: "SIGTERM" | "SIGKILL",
  limitMs = END_LIMIT_MS,
): Promise<void> {
  const parent = runningProcess(places, name);
  const child = parent === undefined ? undefined : childOf(parent);
  if (parent !== undefined && child !== undefined && !(await endsAfter(parent, signal, limitMs, child)))
    await endsAfter(parent, "SIGKILL", limitMs, child);
  await endRecorded(places, name, "SIGKILL", limitMs);
}

async function endsAfter(
  identity: ProcessIdentity,
  signal: NodeJS.Signals,
  limitMs: number,
  signalled = identity.pid,
): Promise<boolean> {
  try {
    process.kill(signalled, signal);
  } catch {
    // It has ended meanwhile.
  }
  return eventually(`the end of process ${identity.pid}`, () => !isAlive(identity), {
    limitMs,
    intervalMs: POLL_INTERVAL_MS,
  }).then(
    () => true,
    () => false,
  );
}

/** The one child of a program that only waits for it, such as nsenter into another pid namespace. */
export async function onlyChild(parent: ProcessIdentity): Promise<number> {
  return waitFor(`the child of process ${parent.pid}`, () => childOf(parent), { intervalMs: POLL_INTERVAL_MS });
}

function childOf({ pid }: ProcessIdentity): number | undefined {
  try {
    const children = readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").trim();
    return children === "" ? undefined : Number(children.split(" ")[0]);
  } catch {
    return undefined; // it has ended
  }
}

export function lastLines(places: ClusterPlaces, name: string, count = 8): string {
  try {
    const lines = readFileSync(logOf(places, name), "utf8").trimEnd().split("\n").slice(-count);
    return `the last lines of its log:\n${lines.join("\n")}`;
  } catch {
    return "it has no log";
  }
}

function recordOf(places: ClusterPlaces, name: string): string {
  return join(places.processes, name);
}

function recordedIdentity(places: ClusterPlaces, name: string): ProcessIdentity | undefined {
  let stat: string;
  try {
    stat = readFileSync(recordOf(places, name), "utf8");
  } catch {
    return undefined;
  }
  // The program's name stands in brackets and may hold anything. Field 22 is the start time.
  const startTicks = Number(stat.slice(stat.lastIndexOf(")") + 2).split(" ")[19]);
  return stat.endsWith("\n") ? { pid: Number.parseInt(stat, 10), startTicks } : undefined;
}
