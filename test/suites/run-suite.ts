// One suite of tests, run by a jest of its own: how it ended, how long it took, and all that it said.
import { spawn } from "node:child_process";
import { createWriteStream, mkdirSync, readFileSync, rmSync } from "node:fs";
import { basename, join } from "node:path";
import { finished } from "node:stream/promises";
import { endedChildrenCpuSeconds } from "./seconds.ts";

export interface SuiteResult {
  /** Its path in the work tree. */
  readonly suite: string;
  readonly seconds: number;
  /** Of the cores, by the suite and all that it waited for; a cluster's programs outlive it and are not in it. */
  readonly cpuSeconds: number;
  readonly passed: number;
  readonly failed: number;
  readonly skipped: number;
  /** Every test of it has passed or was skipped, and jest itself ended well; where real parts are required, some have passed. */
  readonly ok: boolean;
  /** The file that holds its output. */
  readonly log: string;
}

export interface SuiteRun {
  readonly suite: string;
  /** Beside the runner's own. */
  readonly environment: Readonly<Record<string, string>>;
  readonly limitSeconds: number;
}

/** What jest writes with --json, as far as it is read here. */
interface JestReport {
  readonly numPassedTests: number;
  readonly numFailedTests: number;
  readonly numPendingTests: number;
  readonly success: boolean;
}

const LOGS = ".tidemark/suite-logs";
export const JEST = "node_modules/jest/bin/jest.js";
/** In the environment, since some suites run a jest of their own. */
export const JEST_OPTIONS = "--experimental-vm-modules --disable-warning=ExperimentalWarning";

/** Groups of processes that are to end when the runner is told to end. */
const running = new Set<number>();

/** Ends by SIGKILL, with all of its processes, once it takes longer than its limit. */
export async function runSuite({ suite, environment, limitSeconds }: SuiteRun): Promise<SuiteResult> {
  mkdirSync(LOGS, { recursive: true });
  const name = suite
    .replace(/^test\//, "")
    .replaceAll("/", "-")
    .replace(/\.test\.ts$/, "");
  const [log, report] = [join(LOGS, `${name}.log`), join(LOGS, `${name}.json`)];
  rmSync(report, { force: true });
  const output = createWriteStream(log);
  const startMs = performance.now();
  const child = spawn(
    process.execPath,
    [JEST, "--runInBand", "--json", "--outputFile", report, "--runTestsByPath", suite],
    {
      env: { ...process.env, NODE_OPTIONS: JEST_OPTIONS, ...environment },
      stdio: ["ignore", "pipe", "pipe"],
      detached: true,
    },
  );
  const { pid } = child;
  if (pid !== undefined) running.add(pid);
  // The report goes to its file; jest repeats it on stdout.
  child.stdout.resume();
  child.stderr.pipe(output, { end: false });
  let late = false;
  const clock = setTimeout(() => {
    late = true;
    endGroup(pid, "SIGKILL");
  }, limitSeconds * 1000);
  let cpuSeconds = 0;
  child.once("exit", () => {
    cpuSeconds = usedSinceLastEnd();
  });
  const code = await new Promise<number | null>((resolve) => child.once("close", resolve));
  clearTimeout(clock);
  if (pid !== undefined) running.delete(pid);
  if (late) output.write(`\n${basename(suite)} was ended: it was not done after ${limitSeconds} s\n`);
  output.end();
  await finished(output);
  const seconds = Math.round((performance.now() - startMs) / 100) / 10;
  const { passed, failed, skipped, success } = readReport(report);
  return {
    suite,
    seconds,
    cpuSeconds,
    passed,
    failed,
    skipped,
    ok: code === 0 && success && (passed > 0 || process.env["TIDEMARK_REQUIRE_REAL"] !== "true"),
    log,
  };
}

let usedBefore = 0;

/** Children end one after the other, and each adds all of its use at its end. */
function usedSinceLastEnd(): number {
  const used = endedChildrenCpuSeconds();
  const since = used - usedBefore;
  usedBefore = used;
  return Math.round(since);
}

/** A signal to end is passed to every suite that runs. Returned is whether one has come. */
export function endOnSignals(): () => boolean {
  let isEnding = false;
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const)
    process.on(signal, () => {
      isEnding = true;
      process.exitCode = 1;
      for (const pid of running) endGroup(pid, signal);
    });
  return () => isEnding;
}

function endGroup(pid: number | undefined, signal: NodeJS.Signals): void {
  if (pid === undefined) return;
  try {
    process.kill(-pid, signal);
  } catch {
    // It has ended.
  }
}

function readReport(path: string): { passed: number; failed: number; skipped: number; success: boolean } {
  try {
    const report = JSON.parse(readFileSync(path, "utf8")) as JestReport;
    const { numPassedTests: passed, numFailedTests: failed, numPendingTests: skipped, success } = report;
    return { passed, failed, skipped, success };
  } catch {
    return { passed: 0, failed: 0, skipped: 0, success: false }; // It ended before it could report.
  }
}
