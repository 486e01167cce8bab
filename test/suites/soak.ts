// `make soak`: what takes too long for every commit, all cases of all samples. Within TIDEMARK_SOAK_SECONDS it runs the suites whose results
// are the oldest, or those that are named; one that would not end in time, by what it took before, is left out and is among the first of the next
// run. test/soak.json has each result as soon as its suite has ended, for a commit.
import { readFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import { basename } from "node:path";
import { commitCount } from "../harness/sample.ts";
import { forgetFigures, readFigures } from "../soak/figures.ts";
import { asOnlyRun } from "./one-run.ts";
import { endOnSignals, runSuite, type SuiteResult } from "./run-suite.ts";
import { runInSlots } from "./slots.ts";
import { keepSoakFigures, readSoakFigures, soakOrder } from "./soak-figures.ts";
import { SOAK_SUITES } from "./soak-suites.ts";

const LIMIT_SECONDS = Number(process.env["TIDEMARK_SOAK_SECONDS"] || 7200);
const SLOTS = Number(process.env["TIDEMARK_SLOTS"] || 2);
const ENVIRONMENT = { TIDEMARK_SAMPLE: "all" };

const named = process.argv.slice(2);
const unknown = named.filter((path) => !SOAK_SUITES.some((suite) => suite === path));
if (unknown.length > 0) throw new Error(`not of the long run: ${unknown.join(", ")}`);
const startMs = performance.now();
const commit = commitCount();
const before = readSoakFigures();
const results: SuiteResult[] = [];
let leftOut = 0;

const isEnding = endOnSignals();
await asOnlyRun(async () => {
  forgetFigures();
  const suites = soakOrder(SOAK_SUITES, before).filter((suite) => named.length === 0 || named.includes(suite));
  await runInSlots(
    suites.map((suite) => (slot) => runWithinTime(suite, slot)),
    SLOTS,
    isEnding,
  );
  const failed = results.filter(({ ok }) => !ok);
  for (const { suite, log } of failed) say(`FAILED ${suite}: ${log}`);
  say(`suites: ${results.length - failed.length} passed, ${failed.length} failed, ${leftOut} skipped`);
  if (failed.length > 0) process.exitCode = 1;
});

async function runWithinTime(suite: string, slot: number): Promise<void> {
  const restSeconds = LIMIT_SECONDS - Math.round((performance.now() - startMs) / 1000);
  if (restSeconds < (before[suite]?.seconds ?? 1)) {
    leftOut += 1;
    say(`left out ${suite}: ${restSeconds} s are left`);
    return;
  }
  const environment = { ...ENVIRONMENT, VM_CORE: `${slot % availableParallelism()}` };
  const result = await runSuite({ suite, environment, limitSeconds: LIMIT_SECONDS });
  if (isEnding()) return;
  results.push(result);
  const { ok, passed, log } = result;
  const seconds = Math.round(result.seconds);
  // One that ended before it could report has failed, too.
  const failures = ok ? 0 : Math.max(1, result.failed);
  const figures = readFigures()[basename(suite, ".test.ts")];
  keepSoakFigures(suite, { commit, seconds, passed, failed: failures, ...(figures && { figures }) });
  say(`${ok ? "passed" : "FAILED"} ${suite}: ${passed} passed, ${failures} failed in ${seconds} s`);
  if (!ok) process.stdout.write(`${readFileSync(log, "utf8")}\n`);
}

function say(line: string): void {
  process.stdout.write(`${line}\n`);
}
