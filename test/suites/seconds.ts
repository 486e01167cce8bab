// How long each suite has taken: what a run measured, as JSON, and what test/suite-seconds.json says of an earlier one, by which suites are put
// in order.
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";

/** By the suite's path. */
export type SecondsBySuite = Readonly<Record<string, number>>;

export interface Measured {
  /** Of the whole run, on the wall. */
  readonly seconds: number;
  /** What share of the cores' time was used, 0..1. */
  readonly busyRatio: number;
  readonly slots: number;
  readonly suites: SecondsBySuite;
  /** Of the cores, by the suite's path; absent where it is not measured. */
  readonly cpu?: SecondsBySuite;
}

const KNOWN = "test/suite-seconds.json";
/** The order of shorter ones is jest's own. */
const KNOWN_FROM_SECONDS = 3;

/** Of an earlier run; a suite that is new is not in it. */
export function readKnownSeconds(): SecondsBySuite {
  return JSON.parse(readFileSync(KNOWN, "utf8")) as SecondsBySuite;
}

/** With TIDEMARK_KEEP_SECONDS, for a commit: those of this run in place of the earlier ones, others that still exist as they were. */
export function keepSecondsIfAsked(suites: SecondsBySuite): void {
  if (!process.env["TIDEMARK_KEEP_SECONDS"]) return;
  const all = Object.entries({ ...readKnownSeconds(), ...suites });
  const long = all.filter(([suite, seconds]) => seconds >= KNOWN_FROM_SECONDS && existsSync(suite));
  const sorted = long.sort(([a], [b]) => a.localeCompare(b)).map(([suite, seconds]) => [suite, Math.round(seconds)]);
  writeFileSync(KNOWN, `${JSON.stringify(Object.fromEntries(sorted), undefined, 2)}\n`);
}

export function writeMeasured(path: string, measured: Measured): void {
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, `${JSON.stringify(measured, undefined, 2)}\n`);
}

/** The longest first; new ones before all others, since nobody knows. */
export function longestFirst<T>(jobs: readonly T[], secondsOf: (job: T) => number | undefined): T[] {
  const seconds = (job: T): number => secondsOf(job) ?? Number.POSITIVE_INFINITY;
  return [...jobs].sort((a, b) => (seconds(a) === seconds(b) ? 0 : seconds(b) - seconds(a)));
}

/** The time that the machine's cores have worked, and all that they have had, since it was started. */
export interface CoreTime {
  readonly busy: number;
  readonly all: number;
}

export function coreTime(): CoreTime {
  const [line = ""] = readFileSync("/proc/stat", "utf8").split("\n");
  // user nice system idle iowait irq softirq steal
  const ticks = line.trim().split(/\s+/).slice(1, 9).map(Number);
  const all = ticks.reduce((sum, one) => sum + one, 0);
  return { all, busy: all - (ticks[3] ?? 0) - (ticks[4] ?? 0) };
}

export function busyRatio(from: CoreTime, to: CoreTime): number {
  return Math.round(((to.busy - from.busy) / Math.max(1, to.all - from.all)) * 100) / 100;
}

/** Clock ticks a second of /proc, on every architecture that Linux runs Node on. */
const TICKS_PER_SECOND = 100;

/** What the children of this process that have ended have used of the cores, with all of theirs that they waited for. */
export function endedChildrenCpuSeconds(): number {
  const stat = readFileSync("/proc/self/stat", "utf8");
  // The name, in parentheses, may hold anything; after it come state, ppid, ...: cutime and cstime are the 14th and 15th from there.
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  return (Number(fields[13]) + Number(fields[14])) / TICKS_PER_SECOND;
}
