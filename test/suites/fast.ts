// `make test`: one jest over all suites but those of test/real and test/e2e, or over the paths that are given. Says afterwards which suites took
// longest; the figures of a whole run stay in .tidemark/test-seconds.json.
import { spawnSync } from "node:child_process";
import { mkdirSync, readFileSync, rmSync } from "node:fs";
import { relative } from "node:path";
import { JEST, JEST_OPTIONS } from "./run-suite.ts";
import { worthSecondTry } from "./second-try.ts";
import {
  busyRatio,
  coreTime,
  keepSecondsIfAsked,
  longestFirst,
  type SecondsBySuite,
  writeMeasured,
} from "./seconds.ts";

/** Of this run alone: another one may be run in the same tree meanwhile. */
const REPORT = `.tidemark/test-${process.pid}.json`;
const MEASURED = ".tidemark/test-seconds.json";
const OTHERS = ["/test/real/", "/test/e2e/", "/test/soak/"];
/** Tests wait for devices and processes more than they compute. Jest's own choice on two cores would be one worker. */
const WORKERS = 4;
const LONG_SECONDS = 8;

/** What jest writes with --json, as far as it is read here. */
interface JestReport {
  readonly numPassedTests: number;
  readonly numFailedTests: number;
  readonly numPendingTests: number;
  readonly testResults: readonly {
    readonly name: string;
    readonly status: string;
    readonly startTime: number;
    readonly endTime: number;
  }[];
}

const paths = process.argv.slice(2);
const startMs = performance.now();
const startTime = coreTime();
mkdirSync(".tidemark", { recursive: true });
const first = runJest(WORKERS, paths);
if (first !== undefined) {
  if (paths.length === 0) tryAgain(worthSecondTry(failedOf(first)));
  tell(first);
}

function tryAgain(suites: readonly string[]): void {
  const second = suites.length === 0 ? undefined : runJest(1, suites);
  if (second === undefined) return;
  const failed = failedOf(second);
  for (const suite of suites.filter((one) => !failed.includes(one)))
    process.stdout.write(`UNSTABLE ${suite}: passed alone, after it had failed beside others\n`);
}

/** Sets the exit code to jest's own. Undefined: jest ended before it could report. */
function runJest(workers: number, suites: readonly string[]): JestReport | undefined {
  const args = ["--json", "--outputFile", REPORT, "--maxWorkers", `${workers}`, ...suites];
  const { status } = spawnSync(process.execPath, [JEST, ...args, "--testPathIgnorePatterns", ...OTHERS], {
    env: { ...process.env, NODE_OPTIONS: JEST_OPTIONS },
    stdio: ["inherit", "ignore", "inherit"],
  });
  process.exitCode = status ?? 1;
  try {
    return JSON.parse(readFileSync(REPORT, "utf8")) as JestReport;
  } catch {
    return undefined;
  } finally {
    rmSync(REPORT, { force: true });
  }
}

function failedOf({ testResults }: JestReport): string[] {
  return testResults.filter(({ status }) => status === "failed").map(({ name }) => relative(".", name));
}

function tell({ testResults, numPassedTests, numFailedTests, numPendingTests }: JestReport): void {
  const suites: SecondsBySuite = Object.fromEntries(
    testResults.map(({ name, startTime: from, endTime }) => [
      relative(".", name),
      Math.round((endTime - from) / 100) / 10,
    ]),
  );
  const seconds = Math.round((performance.now() - startMs) / 1000);
  const busy = busyRatio(startTime, coreTime());
  for (const [suite, took] of longestFirst(Object.entries(suites), ([, one]) => one))
    if (took >= LONG_SECONDS) process.stdout.write(`${took.toFixed(0).padStart(4)} s  ${suite}\n`);
  const worked = Object.values(suites).reduce((sum, one) => sum + one, 0);
  process.stdout.write(`${worked.toFixed(0)} s of suites in ${seconds} s, the cores ${Math.round(busy * 100)}% busy\n`);
  process.stdout.write(`tests: ${numPassedTests} passed, ${numFailedTests} failed, ${numPendingTests} skipped\n`);
  if (paths.length > 0) return;
  writeMeasured(MEASURED, { seconds, busyRatio: busy, slots: WORKERS, suites });
  keepSecondsIfAsked(suites);
}
