// `make soak`: what takes too long for every commit, all cases of all samples. No suite is begun that would not end within TIDEMARK_SOAK_SECONDS,
// by what it took the last time: it is named as left out. The figures go into test/soak.json, for a commit; those of suites that are asked for
// by their paths only where there are no others yet.
import { readFileSync } from "node:fs";
import { commitCount } from "../harness/sample.ts";
import { forgetFigures, readFigures } from "../soak/figures.ts";
import { endOnSignals, runSuite, type SuiteResult } from "./run-suite.ts";
import { runInSlots } from "./slots.ts";
import { readSoakFigures, type SoakedSuite, writeSoakFigures } from "./soak-figures.ts";

/** In the order in which they are begun. */
const SUITES = [
  "test/soak/under-load.test.ts",
  "test/real/power-cut.test.ts",
  "test/real/kill-matrix.test.ts",
  "test/real/power-cut-unmounted.test.ts",
  "test/real/power-cut-records.test.ts",
  "test/real/lvmd-kill.test.ts",
  "test/real/lvmd-reduce.test.ts",
  "test/real/lvm-operator-crash.test.ts",
  "test/real/span-operator-crash.test.ts",
  "test/real/ordinary-claim-crash.test.ts",
  "test/real/pod-webhook-crash.test.ts",
  "test/real/agent-lvm-crash.test.ts",
  "test/real/lvm-copies.test.ts",
  "test/real/ext4-offline.test.ts",
  "test/e2e/placement-scale.test.ts",
  "test/real/lvmd-thick-thin.test.ts",
  "test/real/lvmd-trouble.test.ts",
  "test/real/lvm-storage.test.ts",
  "test/real/thin-pool.test.ts",
  "test/real/ext4-growth.test.ts",
] as const;
const LIMIT_SECONDS = Number(process.env["TIDEMARK_SOAK_SECONDS"] || 7200);
const SLOTS = Number(process.env["TIDEMARK_SLOTS"] || 2);
const asked = process.argv.slice(2);
const ENVIRONMENT = { TIDEMARK_SAMPLE: "all" };

const startMs = performance.now();
const secondsSoFar = (): number => Math.round((performance.now() - startMs) / 1000);
const last = readSoakFigures();
const results: SuiteResult[] = [];
const leftOut: string[] = [];

const unknown = asked.filter((path) => !SUITES.some((suite) => suite === path));
if (unknown.length > 0) throw new Error(`not of the long run: ${unknown.join(", ")}`);
const isEnding = endOnSignals();
forgetFigures();
await runInSlots(
  SUITES.map((suite) => () => runWithinTime(suite)),
  SLOTS,
  isEnding,
);
const suites = results.map(({ suite, seconds, passed, failed }): [string, SoakedSuite] => [
  suite,
  { seconds: Math.round(seconds), passed, failed },
]);
const figures = {
  commit: commitCount(),
  seconds: secondsSoFar(),
  suites: Object.fromEntries(suites.sort(([a], [b]) => a.localeCompare(b))),
  leftOut,
  figures: readFigures(),
};
if (!isEnding() && (asked.length === 0 || last === undefined)) writeSoakFigures(figures);
const failed = results.filter(({ ok }) => !ok);
for (const { suite, log } of failed) say(`FAILED ${suite}: ${log}`);
say(`suites: ${results.length - failed.length} passed, ${failed.length} failed, ${leftOut.length} skipped`);
if (failed.length > 0) process.exitCode = 1;

async function runWithinTime(suite: string): Promise<void> {
  if (asked.length > 0 && !asked.includes(suite)) {
    leftOut.push(suite);
    return;
  }
  const restSeconds = LIMIT_SECONDS - secondsSoFar();
  if (restSeconds < (last?.suites[suite]?.seconds ?? 0) || restSeconds <= 0) {
    leftOut.push(suite);
    say(`left out ${suite}: ${restSeconds} s are left`);
    return;
  }
  const result = await runSuite({ suite, environment: ENVIRONMENT, limitSeconds: LIMIT_SECONDS });
  results.push(result);
  const { ok, seconds, log } = result;
  say(
    `${ok ? "passed" : "FAILED"} ${suite}: ${result.passed} passed, ${result.failed} failed in ${seconds.toFixed(0)} s`,
  );
  if (!ok) process.stdout.write(`${readFileSync(log, "utf8")}\n`);
}

function say(line: string): void {
  process.stdout.write(`${line}\n`);
}
