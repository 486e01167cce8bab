// `make test-real`: every suite of test/real and test/e2e, or those that are named, each by a jest of its own, several beside each other, the
// longest first. Says of each how it ended and how long it took; what failed is printed whole. The figures stay in .tidemark/real-seconds.json.
import { readdirSync, readFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import { builtTools, goProblem } from "../cluster/go-tools.ts";
import { SHARED_CLUSTERS } from "../e2e/shared-clusters.ts";
import { forgetDeaths } from "../harness/death-notes.ts";
import { commitCount } from "../harness/sample.ts";
import { asOnlyRun } from "./one-run.ts";
import { endOnSignals, runSuite, type SuiteResult } from "./run-suite.ts";
import { worthSecondTry } from "./second-try.ts";
import {
  busyRatio,
  coreTime,
  keepSecondsIfAsked,
  longestFirst,
  readKnownSeconds,
  type SecondsBySuite,
  writeMeasured,
} from "./seconds.ts";
import { runOnSharedCluster } from "./shared-cluster.ts";
import { runInSlots } from "./slots.ts";
import { readSoakFigures, soakWarning } from "./soak-figures.ts";

const DIRECTORIES = ["test/real", "test/e2e"];
const MEASURED = ".tidemark/real-seconds.json";
/** Suites wait for kubelets, leases and disks about as long as they compute. */
const SLOTS_PER_CORE = 1.5;
const LIMIT_SECONDS = 2400;

interface Job {
  readonly suites: readonly string[];
  run(): Promise<void>;
}

const slots = Number(process.env["TIDEMARK_SLOTS"] || Math.ceil(availableParallelism() * SLOTS_PER_CORE));
const named = process.argv.slice(2);
const startMs = performance.now();
const startTime = coreTime();
/** By suite: the last of each counts. */
const results = new Map<string, SuiteResult>();
/** Those that passed at the second try. */
const unstable: string[] = [];

const isEnding = endOnSignals();
await asOnlyRun(async () => {
  // A shallow clone is refused before a cold build rather than after it.
  commitCount();
  forgetDeaths();
  await buildPrograms();
  const jobs = longestFirst(jobsOf(suitesThere()), knownSecondsOf(readKnownSeconds()));
  await runInSlots(
    jobs.map((job) => () => job.run()),
    slots,
    isEnding,
  ).catch((error: unknown) => {
    process.exitCode = 1;
    say(String(error));
  });
  await tryAgain();
  summarize(jobs);
});

async function tryAgain(): Promise<void> {
  const again = isEnding() ? [] : worthSecondTry(failures().map(({ suite }) => suite));
  for (const job of jobsOf(again)) {
    say(`once more, alone: ${job.suites.join(", ")}`);
    await job.run();
  }
  unstable.push(...again.filter((suite) => results.get(suite)?.ok));
}

function failures(): SuiteResult[] {
  return [...results.values()].filter(({ ok }) => !ok);
}

/** Once for all suites: a cold build takes longer than some of them may. Where there is no Go, each suite says what it lacks. */
async function buildPrograms(): Promise<void> {
  if (goProblem() !== undefined) return;
  for (const module of ["etcd", "kubernetes", "csi-sanity"] as const) await builtTools(module, say);
}

function suitesThere(): string[] {
  if (named.length > 0) return named;
  const files = DIRECTORIES.flatMap((directory) =>
    readdirSync(directory, { recursive: true, encoding: "utf8" }).map((name) => `${directory}/${name}`),
  );
  return files.filter((path) => path.endsWith(".test.ts"));
}

/** A shared cluster with its suites is one job, each other suite one of its own. */
function jobsOf(suites: readonly string[]): Job[] {
  const isWanted = (suite: string): boolean => suites.includes(suite);
  const clusters = SHARED_CLUSTERS.map((cluster) => ({ ...cluster, suites: cluster.suites.filter(isWanted) }));
  const alone = suites.filter((suite) => !clusters.some((cluster) => cluster.suites.includes(suite)));
  return [
    ...clusters
      .filter((cluster) => cluster.suites.length > 0)
      .map((cluster) => ({ suites: cluster.suites, run: () => runOnSharedCluster(cluster, runAndTell, isEnding) })),
    ...alone.map((suite) => ({ suites: [suite], run: async () => void (await runAndTell(suite, {})) })),
  ];
}

function knownSecondsOf(known: SecondsBySuite): (job: Job) => number | undefined {
  return ({ suites }) =>
    suites.reduce<number | undefined>((sum, suite) => {
      const seconds = known[suite];
      return sum === undefined || seconds === undefined ? undefined : sum + seconds;
    }, 0);
}

async function runAndTell(suite: string, environment: Readonly<Record<string, string>>): Promise<boolean> {
  const result = await runSuite({ suite, environment, limitSeconds: LIMIT_SECONDS });
  results.set(suite, result);
  const { seconds, cpuSeconds, passed, failed, skipped, ok, log } = result;
  const counts = [`${passed} passed`, failed > 0 && `${failed} failed`, skipped > 0 && `${skipped} skipped`];
  const at = `${Math.round((performance.now() - startMs) / 1000)} s`;
  say(
    `${at.padStart(6)}  ${ok ? "passed" : "FAILED"} ${suite}: ${counts.filter(Boolean).join(", ")} in ${seconds.toFixed(0)} s, ${cpuSeconds} s of CPU`,
  );
  if (!ok) process.stdout.write(`${readFileSync(log, "utf8")}\n`);
  return ok;
}

function summarize(jobs: readonly Job[]): void {
  const all = [...results.values()];
  const bySuite = Object.fromEntries(all.map(({ suite, seconds }) => [suite, seconds]));
  const seconds = Math.round((performance.now() - startMs) / 1000);
  const busy = busyRatio(startTime, coreTime());
  const cpu = Object.fromEntries(all.map(({ suite, cpuSeconds }) => [suite, cpuSeconds]));
  writeMeasured(MEASURED, { seconds, busyRatio: busy, slots, suites: bySuite, cpu });
  keepSecondsIfAsked(bySuite);
  const failed = failures();
  const wanted = jobs.flatMap(({ suites }) => suites).length;
  const worked = all.reduce((sum, one) => sum + one.seconds, 0);
  say(
    `${worked.toFixed(0)} s of suites in ${seconds} s, ${slots} beside each other, the cores ${Math.round(busy * 100)}% busy: ${MEASURED}`,
  );
  const warning = soakWarning(readSoakFigures());
  if (warning !== undefined) say(`WARNING: ${warning}`);
  for (const suite of unstable) say(`UNSTABLE ${suite}: passed alone, after it had failed beside others`);
  for (const { suite, log } of failed) say(`FAILED ${suite}: ${log}`);
  if (all.length < wanted) say(`${wanted - all.length} suites were not run`);
  say(`suites: ${all.length - failed.length} passed, ${failed.length} failed`);
  if (failed.length > 0 || all.length < wanted) process.exitCode = 1;
}

function say(line: string): void {
  process.stdout.write(`${line}\n`);
}
