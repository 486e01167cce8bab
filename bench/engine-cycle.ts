// What one round over a fleet costs the engine, with a real Prometheus that holds its series: the five questions, taking the answers in,
// deciding each volume and what its agent is to watch. The API server is played, so that nothing but the engine and Prometheus is measured.
// VOLUMES=1000 makes it smaller.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { monitorEventLoopDelay } from "node:perf_hooks";
import { freePort } from "../demo/show/run/free-port.ts";
import { createRunDirectory, removeRun } from "../demo/show/run/run-directory.ts";
import type { FilesystemLayout } from "../src/contracts/kinds/filesystem-layout.ts";
import type { KubeObject } from "../src/contracts/kubernetes/object.ts";
import { systemClock } from "../src/platform/process/clock.ts";
import { createCommandPort } from "../src/platform/process/effects/command-port.ts";
import { directEffects } from "../src/platform/process/effects/effects.ts";
import { readConfig } from "../src/policy-engine/config.ts";
import { createDecisions } from "../src/policy-engine/engine/decisions.ts";
import { createPolicyBook } from "../src/policy-engine/gather/policy-book.ts";
import { createEngineMetrics, type EngineMetrics } from "../src/policy-engine/metrics.ts";
import type { EngineCaches } from "../test/fakes/engine-caches.ts";
import { createRecordingLog } from "../test/fakes/recording-log.ts";
import { servedClient } from "../test/fakes/served-client.ts";
import { createPrometheus } from "../test/harness/prometheus.ts";
import { untilRead, waitFor } from "../test/harness/wait-for.ts";
import { type Benchmark, quantile, round, type Say, settingFromEnvironment } from "./benchmark.ts";
import { makeCaches, makePolicies } from "./engine-cycle/fleet.ts";

const VOLUMES = 100_000;
const POLICIES = 1000;
const ROUNDS = 5;
const EVALUATION_MS = 15_000;
/** Loading 400,000 series for the first time takes Prometheus a while. */
const SCRAPED_LIMIT_MS = 300_000;
const MIB = 1 << 20;

export const engineCycleBenchmark: Benchmark = async (say) => {
  const volumes = settingFromEnvironment("VOLUMES", VOLUMES);
  const directory = createRunDirectory(mkdtempSync(join(tmpdir(), "engine-cycle-")));
  try {
    const url = await startPrometheus(directory, volumes, say);
    return { volumes, policies: POLICIES, ...(await measureRounds(url, volumes, say)) };
  } finally {
    await removeRun(directory, createCommandPort(directEffects));
    rmSync(join(directory, ".."), { recursive: true, force: true });
  }
};

export const compileBenchmark: Benchmark = async (say) => {
  const policies = settingFromEnvironment("POLICIES", POLICIES);
  const caches = makeCaches(0, 0);
  let changes = 0;
  const book = createPolicyBook(
    caches,
    () => systemClock.monotonicMs(),
    () => {
      changes += 1;
    },
  );
  const objects = makePolicies(policies);
  const beganMs = performance.now();
  const before = process.cpuUsage();
  for (const policy of objects) caches.policies.put(policy);
  await book.settled();
  const ms = performance.now() - beganMs;
  await new Promise((resolve) => setImmediate(resolve));
  const { user, system } = process.cpuUsage(before);
  book.stop();
  say(`${policies} policies synced at once are in force after ${round(ms, 0)} ms; ${changes} rounds were asked for`);
  return { policies, ms: round(ms, 0), cpuMs: round((user + system) / 1000, 0), rounds: changes };
};

async function startPrometheus(directory: string, volumes: number, say: Say): Promise<string> {
  const exporter = spawn(process.execPath, ["--import", "tsx", "bench/engine-cycle/exporter.ts", String(volumes)], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  process.once("exit", () => exporter.kill());
  const [port] = (await once(exporter.stdout, "data")) as [Buffer];
  const prometheus = await createPrometheus(
    directory,
    await freePort(),
    [{ job: "fleet", port: Number(port.toString()) }],
    undefined,
    "15s",
  );
  await prometheus.start();
  say(`Prometheus takes in the series of ${volumes} volumes`);
  await waitFor(
    "all series",
    async () => (await prometheus.query("count(tidemark_filesystem_inodes_used)"))[0] === String(volumes) || undefined,
    { limitMs: SCRAPED_LIMIT_MS, intervalMs: 2000 },
  );
  return prometheus.url;
}

interface Round {
  readonly cycleMs: number;
  /** Of the whole process, from the end of the round before. */
  readonly cpuMs: number;
  readonly maxBlockMs: number;
}

async function measureRounds(url: string, volumes: number, say: Say) {
  const caches = makeCaches(volumes, POLICIES);
  const metrics = createEngineMetrics(() => true);
  const decisions = startDecisions(url, caches, metrics);
  await decisions.policies.settled();
  const askedBefore = await questionsTo(url);
  const nextRound = followRounds(metrics);
  decisions.start();
  const rounds: Round[] = [];
  for (let index = 0; index < ROUNDS; index += 1) {
    const one = await nextRound();
    say(`round ${index + 1}: ${JSON.stringify(one)}, ${residentMib()} MiB`);
    rounds.push(one);
  }
  const queries = round(((await questionsTo(url)) - askedBefore) / ROUNDS, 1);
  const rssMiB = residentMib();
  checkReadings(decisions.engine, caches);
  const cpuMs = await cpuOfDeciding(decisions.engine, caches);
  await decisions.stop();
  // The first one reports each volume for the first time.
  const warm = rounds.slice(1);
  const median = (of: (one: Round) => number): number => quantile(warm.map(of), 0.5);
  return {
    cycleMs: median((one) => one.cycleMs),
    cycleCpuMs: median((one) => one.cpuMs),
    firstCycleMs: rounds[0]?.cycleMs,
    cpuMs,
    maxBlockMs: Math.max(...warm.map((one) => one.maxBlockMs)),
    rssMiB,
    queries,
  };
}

/** The answer resolves with the end of the next round. */
function followRounds(metrics: EngineMetrics): () => Promise<Round> {
  const delay = monitorEventLoopDelay({ resolution: 5 });
  delay.enable();
  let before = { count: 0, sumSeconds: 0 };
  let cpuBefore = process.cpuUsage();
  return async () => {
    const after = await untilRead(
      "a round",
      () => cyclesOf(metrics),
      ({ count }) => count > before.count,
      {
        intervalMs: 250,
      },
    );
    const { user, system } = process.cpuUsage(cpuBefore);
    const cycleMs = round((after.sumSeconds - before.sumSeconds) * 1000, 0);
    const maxBlockMs = round(delay.max / 1e6, 0);
    before = after;
    cpuBefore = process.cpuUsage();
    delay.reset();
    return { cycleMs, cpuMs: round((user + system) / 1000, 0), maxBlockMs };
  };
}

function residentMib(): number {
  return round(process.memoryUsage().rss / MIB, 0);
}

type Decisions = ReturnType<typeof createDecisions>;

/** Of one volume in a hundred: a round that read nothing would be fast. */
function checkReadings(engine: Decisions["engine"], caches: EngineCaches): void {
  const looked = caches.layouts.store.list().filter((_layout, index) => index % 100 === 0);
  for (const { metadata } of looked) {
    const seen = engine.look(metadata.name);
    if (seen?.gathered.facts.filesystem.reading?.source !== "prometheus")
      throw new Error(`${metadata.name}: ${JSON.stringify(seen?.plan)}`);
  }
}

/** Instant queries that it has answered; the benchmark asks none of its own in the meantime. */
async function questionsTo(url: string): Promise<number> {
  const page = await (await fetch(`${url}/metrics`)).text();
  const counts = page.matchAll(/^prometheus_http_requests_total\{code="200",handler="\/api\/v1\/query"\} (\S+)$/gm);
  return [...counts].reduce((sum, [, count]) => sum + Number(count), 0);
}

/** Of deciding and guidance alone, once everything has to be looked at again. */
async function cpuOfDeciding(engine: Decisions["engine"], caches: EngineCaches): Promise<number> {
  await new Promise((resolve) => setTimeout(resolve, EVALUATION_MS / 2));
  const before = process.cpuUsage();
  await engine.evaluateAll(caches.layouts.store.list().map(({ metadata }) => metadata.name));
  const { user, system } = process.cpuUsage(before);
  return round((user + system) / 1000, 0);
}

function startDecisions(url: string, caches: EngineCaches, metrics: EngineMetrics) {
  const apply = async (_point: string, { kind }: { kind: string }, object: KubeObject): Promise<KubeObject> =>
    kind === "FilesystemLayout" ? showGrant(caches, object as FilesystemLayout) : object;
  return createDecisions({
    client: servedClient({ apply }),
    events: { record: () => {}, flush: async () => {} },
    caches,
    leadership: {
      start: () => {},
      stop: async () => {},
      isLeader: () => true,
      epoch: () => 1,
      agentKnows: () => {},
    },
    metrics,
    config: readConfig(["--prometheus", url, "--evaluation-interval", `${EVALUATION_MS / 1000}s`], {}),
    clock: systemClock,
    log: createRecordingLog().log,
  });
}

/** As a watch does, right after the answer: without it each grant would be in question for seconds. */
function showGrant({ layouts }: EngineCaches, { metadata, spec }: FilesystemLayout): KubeObject {
  const layout = layouts.store.get(metadata.name);
  if (layout === undefined) throw new Error(`no layout ${metadata.name}`);
  const shown = { ...layout, spec: { ...layout.spec, emergency: spec.emergency } };
  setImmediate(() => layouts.put(shown));
  return shown;
}

async function cyclesOf(metrics: EngineMetrics): Promise<{ readonly count: number; readonly sumSeconds: number }> {
  const { values } = await metrics.cycles.get();
  const of = (suffix: string): number =>
    values
      .filter(({ metricName, labels }) => metricName?.endsWith(suffix) && labels.outcome === "done")
      .reduce((sum, { value }) => sum + value, 0);
  return { count: of("_count"), sumSeconds: of("_sum") };
}
