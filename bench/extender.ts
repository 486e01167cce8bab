// What the scheduler waits for: filter and prioritize of one pod after another, by names over HTTP, of a process that knows 5,000 nodes and
// 50,000 volumes. What was put on each node is recounted from the objects that followed the answers.
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { Agent, request } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { freePort } from "../demo/show/run/free-port.ts";
import { runBurst } from "../test/builders/burst.ts";
import { buildClaim, buildLogicalVolume, buildPod } from "../test/builders/placement.ts";
import { type BundleProcess, createBundleProcess } from "../test/harness/bundle-process.ts";
import { waitFor } from "../test/harness/wait-for.ts";
import { type Benchmark, quantile, round, type Say, settingFromEnvironment } from "./benchmark.ts";
import { fleetOf, NODES, nodeName, ROOM, VOLUMES } from "./extender/fleet.ts";
import { type ListServer, startListServer } from "./extender/list-server.ts";

const PODS = 2000;
const WARM_UP = 200;
const FEWER_CANDIDATES = 500;
const BURST = { nodes: 5000, pods: 10_000, clients: 32, room: 3, seed: 1 };

export const extenderBenchmark: Benchmark = async (say) => {
  const pods = settingFromEnvironment("PODS", PODS);
  const directory = mkdtempSync(join(tmpdir(), "tidemark-bench-extender-"));
  const server = await startListServer(fleetOf(2 * pods + WARM_UP));
  const [port, httpPort] = [await freePort(), await freePort()];
  const args = [
    "extender",
    "--server",
    server.url,
    "--http-host",
    "127.0.0.1",
    "--http-port",
    String(httpPort),
    "--extender-port",
    String(port),
    "--extender-tls",
    "Off",
    "--start-delay",
    "0s",
  ];
  const extender = createBundleProcess(directory, "extender", args);
  try {
    extender.start();
    extender.firstLine().catch(() => undefined);
    await untilReady(httpPort, extender, say);
    const scheduler = createScheduler(port, server);
    const names = Array.from({ length: NODES }, (_, index) => nodeName(index));
    await scheduler.place(VOLUMES, WARM_UP, names);
    const startMs = cpuMsOf(extender.pid);
    const all = await scheduler.place(VOLUMES + WARM_UP, pods, names);
    const allMs = cpuMsOf(extender.pid) - startMs;
    const fewer = await scheduler.place(VOLUMES + WARM_UP + pods, pods, names.slice(0, FEWER_CANDIDATES));
    const fewerMs = cpuMsOf(extender.pid) - startMs - allMs;
    const rssMiB = memoryMiBOf(extender.pid, "VmRSS");
    say(
      `${NODES} candidates: p50 ${all.p50Ms} ms, p99 ${all.p99Ms} ms, ${all.podsPerSecond} pods/s; most memory ${memoryMiBOf(extender.pid, "VmHWM")} MiB`,
    );
    say(
      `${FEWER_CANDIDATES} candidates: p50 ${fewer.p50Ms} ms, p99 ${fewer.p99Ms} ms, ${fewer.podsPerSecond} pods/s, ${fewer.refused} asked again`,
    );
    await extender.stop();
    say(`pure: ${BURST.pods} pods from ${BURST.clients} clients at once onto ${BURST.nodes} nodes`);
    const burst = runBurst(BURST);
    say(`pure: ${JSON.stringify(burst)}`);
    return {
      nodes: NODES,
      volumes: VOLUMES,
      p50Ms: all.p50Ms,
      p99Ms: all.p99Ms,
      podsPerSecond: all.podsPerSecond,
      podsPerSecond500: fewer.podsPerSecond,
      cpuMsPerPod: round(allMs / pods, 2),
      cpuMsPerPod500: round(fewerMs / pods, 2),
      overCommits: scheduler.overCommits() + burst.overCommits,
      unplaced: BURST.pods - burst.placed,
      rssMiB: round(rssMiB, 1),
    };
  } finally {
    await extender.kill();
    await server.close();
    rmSync(directory, { recursive: true, force: true });
  }
};

async function untilReady(port: number, extender: BundleProcess, say: Say): Promise<void> {
  const startMs = performance.now();
  await waitFor(
    "a ready extender",
    async () => ((await fetch(`http://127.0.0.1:${port}/readyz`)).status === 200 ? true : undefined),
    { limitMs: 300_000, otherwise: () => extender.log() },
  );
  say(`${VOLUMES} volumes on ${NODES} nodes listed in ${round((performance.now() - startMs) / 1000, 1)} s`);
}

interface Placed {
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly podsPerSecond: number;
  readonly refused: number;
}

/** As kube-scheduler: one pod after another, over one connection; the objects follow. */
function createScheduler(port: number, server: ListServer) {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  const onNode = new Map<string, number>();
  const ask = (path: string, body: string): Promise<unknown> => post(agent, port, path, body);
  let refused = 0;

  const placeOne = async (index: number, namesJson: string): Promise<number> => {
    const pod = JSON.stringify(buildPod(index));
    const startMs = performance.now();
    const { NodeNames } = (await ask("/filter", `{"Pod":${pod},"Nodes":null,"NodeNames":${namesJson}}`)) as {
      NodeNames: string[];
    };
    if (NodeNames.length > 1)
      await ask("/prioritize", `{"Pod":${pod},"Nodes":null,"NodeNames":${JSON.stringify(NodeNames)}}`);
    const tookMs = performance.now() - startMs;
    const nodeName = NodeNames[index % Math.max(1, NodeNames.length)];
    if (nodeName === undefined) refused += 1;
    else {
      onNode.set(nodeName, (onNode.get(nodeName) ?? 0) + 1);
      server.tell("persistentvolumeclaims", "MODIFIED", versioned(buildClaim(index, { selectedNode: nodeName })));
      server.tell("logicalvolumes", "ADDED", versioned(buildLogicalVolume(index, nodeName)));
    }
    return tookMs;
  };
  return {
    place: async (first: number, count: number, names: readonly string[]): Promise<Placed> => {
      const before = refused;
      const tookMs: number[] = [];
      const orders = Array.from({ length: Math.min(count, ORDERS) }, () => JSON.stringify(inOrderOfWorkers(names)));
      const startMs = performance.now();
      for (let index = first; index < first + count; index += 1)
        tookMs.push(await placeOne(index, orders[index % orders.length] ?? "[]"));
      const seconds = (performance.now() - startMs) / 1000;
      return {
        p50Ms: round(quantile(tookMs, 0.5), 2),
        p99Ms: round(quantile(tookMs, 0.99), 2),
        podsPerSecond: round(count / seconds, 0),
        refused: refused - before,
      };
    },
    overCommits: () => [...onNode.values()].filter((count) => count > ROOM).length,
  };
}

/** kube-scheduler's own: so many workers look at nodes, each at a run of them at a time, and put those that fit into one list. */
const WORKERS = 16;

/** So many are made before the time counts, for one pod after another: making them is the scheduler's own work. */
const ORDERS = 100;

/** Names as the scheduler's filters leave them: nearly in order, and never twice in the same. */
function inOrderOfWorkers(names: readonly string[]): readonly string[] {
  const run = Math.max(1, Math.min(Math.floor(Math.sqrt(names.length)), Math.floor(names.length / WORKERS) + 1));
  const ends = Array.from({ length: Math.ceil(names.length / run) }, (_, index) => ({ next: index * run, run }));
  const workers = ends.splice(0, WORKERS);
  const listed: string[] = [];
  while (workers.length > 0) {
    const turn = Math.floor(Math.random() * workers.length);
    const worker = workers[turn];
    const name = worker === undefined || worker.run === 0 ? undefined : names[worker.next];
    if (worker === undefined || name === undefined) {
      const [more] = ends.splice(0, 1);
      workers.splice(turn, 1, ...(more === undefined ? [] : [more]));
      continue;
    }
    listed.push(name);
    worker.next += 1;
    worker.run -= 1;
  }
  return listed;
}

let version = 1_000_000;
function versioned<T extends { metadata: object }>(object: T): T {
  version += 1;
  return { ...object, metadata: { ...object.metadata, resourceVersion: String(version) } };
}

function post(agent: Agent, port: number, path: string, body: string): Promise<unknown> {
  return new Promise((resolve, reject) => {
    const headers = { "content-type": "application/json", "content-length": Buffer.byteLength(body) };
    const sent = request({ agent, host: "127.0.0.1", port, path, method: "POST", headers }, (response) => {
      const chunks: Buffer[] = [];
      response.on("data", (chunk: Buffer) => chunks.push(chunk));
      response.on("end", () => {
        const text = Buffer.concat(chunks).toString("utf8");
        if (response.statusCode === 200) resolve(JSON.parse(text));
        else reject(new Error(`${path} answered ${response.statusCode}: ${text}`));
      });
    });
    sent.on("error", reject);
    sent.end(body);
  });
}

/** User and system; proc(5): fields 14 and 15 of stat, in ticks of 10 ms. */
function cpuMsOf(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, "utf8")
    .replace(/^.*\) /s, "")
    .split(" ");
  return 10 * (Number(fields[11]) + Number(fields[12]));
}

function memoryMiBOf(pid: number, field: "VmRSS" | "VmHWM"): number {
  const text = readFileSync(`/proc/${pid}/status`, "utf8");
  const kibibytes = Number(new RegExp(`${field}:\\s+(\\d+) kB`).exec(text)?.[1]);
  return round(kibibytes / 1024, 1);
}
