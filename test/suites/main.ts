// `make test-real`: every suite of test/real and test/e2e, each by a jest of its own, the longest first, several beside each other. Says of each
// how it ended and how long it took; what failed is printed whole. The figures stay in .tidemark/real-seconds.json.
import { readdirSync, readFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import { endSuites, runSuite, type SuiteResult } from "./run-suite.ts";
import { busyRatio, coreTime, keepSecondsIfAsked, longestFirst, readKnownSeconds, writeMeasured } from "./seconds.ts";
import { runInSlots } from "./slots.ts";
import { readSoakFigures, soakWarning } from "./soak-figures.ts";

const DIRECTORIES = ["test/real", "test/e2e"];
const MEASURED = ".tidemark/real-seconds.json";
/** Suites wait for kubelets, leases and disks about as long as they compute. */
const SLOTS_PER_CORE = 1.5;
const LIMIT_SECONDS = 2400;

const slots = Number(process.env["TIDEMARK_SLOTS"] ?? Math.ceil(availableParallelism() * SLOTS_PER_CORE));
const known = readKnownSeconds();
const startMs = performance.now();
const startTime = coreTime();
const results: SuiteResult[] = [];

for (const signal of ["SIGINT", "SIGTERM"] as const)
  process.once(signal, () => {
    endSuites(signal);
    process.exitCode = 1;
  });

const found = DIRECTORIES.flatMap((directory) => readdirSync(directory).map((name) => `${directory}/${name}`));
const suites = longestFirst(
  found.filter((path) => path.endsWith(".test.ts")),
  (suite) => known[suite],
);
await runInSlots(
  suites.map((suite) => () => runAndTell(suite)),
  slots,
);
summarize();

async function runAndTell(suite: string): Promise<void> {
  const result = await runSuite({ suite, environment: {}, limitSeconds: LIMIT_SECONDS });
  results.push(result);
  const { seconds, passed, failed, skipped, ok, log } = result;
  const counts = [`${passed} passed`, failed > 0 && `${failed} failed`, skipped > 0 && `${skipped} skipped`];
  say(`${ok ? "passed" : "FAILED"} ${suite}: ${counts.filter(Boolean).join(", ")} in ${seconds.toFixed(0)} s`);
  if (!ok) process.stdout.write(`${readFileSync(log, "utf8")}\n`);
}

function summarize(): void {
  const bySuite = Object.fromEntries(results.map(({ suite, seconds }) => [suite, seconds]));
  const seconds = Math.round((performance.now() - startMs) / 1000);
  const busy = busyRatio(startTime, coreTime());
  writeMeasured(MEASURED, { seconds, busyRatio: busy, slots, suites: bySuite });
  keepSecondsIfAsked(bySuite);
  const failed = results.filter(({ ok }) => !ok);
  const worked = results.reduce((sum, one) => sum + one.seconds, 0);
  say(
    `${worked.toFixed(0)} s of suites in ${seconds} s, ${slots} beside each other, the cores ${Math.round(busy * 100)}% busy: ${MEASURED}`,
  );
  for (const { suite, log } of failed) say(`FAILED ${suite}: ${log}`);
  const warning = soakWarning(readSoakFigures());
  if (warning !== undefined) say(`WARNING: ${warning}`);
  say(`suites: ${results.length - failed.length} passed, ${failed.length} failed`);
  if (failed.length > 0 || results.length < suites.length) process.exitCode = 1;
}

function say(line: string): void {
  process.stdout.write(`${line}\n`);
}
