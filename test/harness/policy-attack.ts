// What one namespace's editor can do to policy-engine and operator by policies alone, and how another namespace fares meanwhile. Both are
// processes of the bundle, on the embedded control plane; the harness plays the other namespace's agent.
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { credentials } from "@grpc/grpc-js";
import { freePort } from "../../demo/show/run/free-port.ts";
import { SamplesClient } from "../../src/contracts/gen/tidemark/samples/v1/samples.ts";
import { VOLUME_POLICIES, type VolumePolicy } from "../../src/contracts/kinds/volume-policy.ts";
import { NAMESPACES } from "../../src/contracts/kubernetes/resources.ts";
import { GIB, MIB } from "../../src/contracts/quantities/quantity.ts";
import { type OfBudget, worstPolicy } from "../builders/worst-policy.ts";
import {
  applyPolicy,
  type Cluster,
  makeVolume,
  sample,
  startCluster,
  untilFilesystem,
} from "../integration/policy-engine/engine-under-test.ts";
import { type BundleProcess, createBundleProcess } from "./bundle-process.ts";
import { waitFor } from "./wait-for.ts";

const NAMESPACE = "team";
const NODE = "node-1";
const READY_LIMIT_MS = 300_000;

export interface PolicyAttack {
  /** Of the process' start. */
  readonly engineReadyMs: number;
  readonly operatorReadyMs: number;
  /** What each has used of a core by then: on a machine that does other work this is what counts. */
  readonly engineCpuMs: number;
  readonly operatorCpuMs: number;
  /** The longest that either took to answer a probe, from its first answer until both were ready. */
  readonly longestProbeMs: number;
  /** From the engine's start, for a volume of the other namespace. */
  readonly firstDecisionMs: number;
  /** From a sample to the target, for volumes of the other namespace while policies are changed as fast as the API server takes it. */
  readonly decisionsMs: readonly number[];
  readonly changesPerSecond: number;
  /** The most memory that each had. */
  readonly engineMiB: number;
  readonly operatorMiB: number;
  /** What the engine says of the policies, as many as have a status; all, where that was waited for. */
  readonly policies: readonly VolumePolicy[];
}

export interface AttackOptions {
  readonly policies: number;
  readonly ofBudget: OfBudget;
  /** Of the other namespace, decided one after another. */
  readonly volumes: number;
  readonly awaitsStatuses: boolean;
  readonly say: (line: string) => void;
}

export async function attackWithPolicies(options: AttackOptions): Promise<PolicyAttack> {
  const directory = mkdtempSync(join(tmpdir(), "tidemark-policy-attack-"));
  const cluster = await startCluster();
  const started: Started[] = [];
  try {
    const [first, ...others] = await prepare(cluster, options);
    if (first === undefined) throw new Error("an attack needs a volume to decide");
    const sinceMs = performance.now();
    const socket = join(directory, "samples.sock");
    const engine = await start(directory, cluster, "policy-engine", ["--samples-socket", socket]);
    const operator = await start(directory, cluster, "operator", ["--csi-socket", join(directory, "csi.sock")]);
    started.push(engine, operator);
    const ready = await Promise.all([untilReady(engine), untilReady(operator)]);
    options.say(`ready after ${Math.round(ready[0].readyMs)} and ${Math.round(ready[1].readyMs)} ms`);
    const agent = createPlayedAgent(socket);
    await decide(cluster, agent, first);
    const firstDecisionMs = performance.now() - sinceMs;
    const change = changeForEver(cluster, options);
    const decisionsMs: number[] = [];
    for (const volume of others) decisionsMs.push(await decide(cluster, agent, volume));
    const changesPerSecond = await change.end();
    const policies = await untilReported(cluster, options.awaitsStatuses ? options.policies : 0);
    agent.close();
    return {
      engineReadyMs: ready[0].readyMs,
      operatorReadyMs: ready[1].readyMs,
      engineCpuMs: ready[0].cpuMs,
      operatorCpuMs: ready[1].cpuMs,
      longestProbeMs: Math.max(ready[0].longestProbeMs, ready[1].longestProbeMs),
      firstDecisionMs,
      decisionsMs,
      changesPerSecond,
      engineMiB: mostMemoryMiB(engine.process.pid),
      operatorMiB: mostMemoryMiB(operator.process.pid),
      policies,
    };
  } finally {
    for (const { process } of started) await process.kill();
    await cluster.stop();
    rmSync(directory, { recursive: true, force: true });
  }
}

async function prepare(cluster: Cluster, { policies, ofBudget, volumes, say }: AttackOptions): Promise<Volume[]> {
  const namespace = { apiVersion: "v1", kind: "Namespace", metadata: { name: NAMESPACE } };
  await cluster.client.create("test/namespace", NAMESPACES, namespace);
  await applyPolicy(cluster, "honest", {
    limits: { max: "10Gi" },
    rules: [{ name: "extend", action: "Extend", when: "volume.usedRatio >= 0.8", targetUsed: "60%" }],
    behavior: { extend: { minStep: "256Mi" } },
  });
  const made: Volume[] = [];
  for (let i = 0; i < volumes; i += 1) {
    const name = `volume-${i}`;
    made.push({ name, handle: await makeVolume(cluster, name, GIB) });
  }
  for (let i = 0; i < policies; i += 1)
    await cluster.client.create("test/policy", VOLUME_POLICIES, worstPolicy(NAMESPACE, i, ofBudget));
  say(`${policies} policies, each ${ofBudget} its own budget`);
  return made;
}

interface Volume {
  readonly name: string;
  readonly handle: string;
}

interface Started {
  readonly process: BundleProcess;
  readonly url: string;
}

async function start(directory: string, cluster: Cluster, name: string, flags: readonly string[]): Promise<Started> {
  const port = await freePort();
  const http = ["--http-host", "127.0.0.1", "--http-port", String(port)];
  const process = createBundleProcess(directory, name, [name, "--server", cluster.url, ...http, ...flags]);
  process.start();
  process.firstLine().catch(() => undefined);
  return { process, url: `http://127.0.0.1:${port}` };
}

interface ReadyProcess {
  readonly readyMs: number;
  readonly cpuMs: number;
  readonly longestProbeMs: number;
}

async function untilReady({ process, url }: Started): Promise<ReadyProcess> {
  const sinceMs = performance.now();
  let longestProbeMs = 0;
  await waitFor(
    `a ready ${process.name}`,
    async () => {
      const askedMs = performance.now();
      const answer = await fetch(`${url}/readyz`).catch(() => undefined);
      if (answer === undefined) return undefined;
      longestProbeMs = Math.max(longestProbeMs, performance.now() - askedMs);
      return answer.status === 200 ? true : undefined;
    },
    { limitMs: READY_LIMIT_MS, otherwise: () => process.log().slice(-2000) },
  );
  return { readyMs: performance.now() - sinceMs, cpuMs: cpuMsOf(process.pid), longestProbeMs };
}

type PlayedAgent = ReturnType<typeof createPlayedAgent>;

function createPlayedAgent(socket: string) {
  const client = new SamplesClient(`unix://${socket}`, credentials.createInsecure());
  const stream = client.stream();
  stream.on("data", () => {});
  stream.on("error", () => {});
  stream.write({ message: { $case: "hello", value: { nodeName: NODE, highestEpoch: 0 } } });
  return {
    isFull: (handle: string): void => {
      const samples = [sample(handle, { sizeBytes: GIB, usedBytes: 850 * MIB })];
      stream.write({ message: { $case: "batch", value: { samples } } });
    },
    close: (): void => {
      stream.end();
      client.close();
    },
  };
}

/** How long it takes from the first sample that asks for more to a target. */
async function decide(cluster: Cluster, agent: PlayedAgent, { name, handle }: Volume): Promise<number> {
  const sinceMs = performance.now();
  agent.isFull(handle);
  // As an agent does; the first may come before the engine leads.
  const again = setInterval(() => agent.isFull(handle), 1000);
  try {
    await untilFilesystem(cluster, name, `an extend of ${name}`, ({ spec }) => spec.target !== undefined);
  } finally {
    clearInterval(again);
  }
  return performance.now() - sinceMs;
}

/** One change after another, each of which has to be compiled anew. */
function changeForEver({ client }: Cluster, { policies, ofBudget }: AttackOptions) {
  const sinceMs = performance.now();
  let changes = 0;
  let isEnding = false;
  const change = async (): Promise<void> => {
    for (; !isEnding; changes += 1) {
      const { metadata, spec } = worstPolicy(NAMESPACE, changes % policies, ofBudget);
      await client.mergePatch("test/change", VOLUME_POLICIES, metadata, {
        spec: { rules: [...spec.rules.slice(1), { ...spec.rules[0], name: `changed-${changes}` }] },
      });
    }
  };
  const running = change();
  return {
    /** How many there were in a second. */
    end: async (): Promise<number> => {
      isEnding = true;
      await running;
      return (1000 * changes) / (performance.now() - sinceMs);
    },
  };
}

async function untilReported({ client }: Cluster, policies: number): Promise<VolumePolicy[]> {
  let reported: VolumePolicy[] = [];
  return waitFor(
    "a status of each policy",
    async () => {
      const { items } = await client.list(VOLUME_POLICIES, { namespace: NAMESPACE, pageSize: 50 });
      reported = items.filter(({ metadata, status }) => status?.observedGeneration === metadata.generation);
      return reported.length >= policies ? reported : undefined;
    },
    { limitMs: READY_LIMIT_MS, intervalMs: 1000, otherwise: () => `${reported.length} of ${policies} have one` },
  );
}

/** In user and system mode, by the kernel's ticks of 10 ms. */
function cpuMsOf(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1]?.split(" ") ?? [];
  return 10 * (Number(fields[11]) + Number(fields[12]));
}

function mostMemoryMiB(pid: number): number {
  const [, kibibytes] = /^VmHWM:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, "utf8")) ?? [];
  return Number(kibibytes) / 1024;
}
