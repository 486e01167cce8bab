// What lvmd costs over the LVM command itself, and how fast it tells what it knows: the bundle's lvmd on LVM's metadata alone (real
// commands, nothing activated), beside the same command with the same arguments on a group of its own. PAIRS=10 shortens it.
import { mkdtempSync, rmSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { credentials } from "@grpc/grpc-js";
import { LVServiceClient, VGServiceClient } from "../src/gen/topolvm/lvmd.ts";
import { MIB } from "../src/units/quantity.ts";
import { createLvmdProcess, type LvmdProcess } from "../test/harness/lvmd-process.ts";
import { waitFor } from "../test/harness/wait-for.ts";
import { type Benchmark, quantile, round, type Say, settingFromEnvironment } from "./benchmark.ts";
import { listsPerSecond } from "./lvmd/list-rate.ts";
import { createMetadataOnlyLvm, type MetadataOnlyLvm } from "./lvmd/metadata-only-lvm.ts";
import { startedPrograms } from "./lvmd/started-programs.ts";

const PAIRS = 50;
const UNCOUNTED_PAIRS = 3;
/** What a change has started is over then. */
const QUIET_MS = 200;
const VOLUME_BYTES = 64 * MIB;
const [FEW, MANY] = [10, 1000];
const IDLE_MS = 60_000;
const TAG = "tidemark.dev/claim=shop/cart";

export const lvmdBenchmark: Benchmark = async (say) => {
  const directory = mkdtempSync("/dev/shm/tidemark-bench-lvmd-");
  const served = await createMetadataOnlyLvm(join(directory, "served"), "tidemark-bench-served");
  const bare = await createMetadataOnlyLvm(join(directory, "bare"), "tidemark-bench-bare");
  const lvmd = await createLvmdProcess(directory, served);
  try {
    await lvmd.start();
    return { on: "LVM metadata", ...(await creation(lvmd, bare, say)), ...(await listing(lvmd, served, say)) };
  } finally {
    await lvmd.process.stop();
    for (const lvm of [served, bare]) await lvm.remove();
    rmSync(directory, { recursive: true });
  }
};

/** In turns, so that both meet the same machine. */
async function creation({ socket }: LvmdProcess, bare: MetadataOnlyLvm, say: Say) {
  const pairs = settingFromEnvironment("PAIRS", PAIRS);
  const client = new LVServiceClient(`unix://${socket}`, credentials.createInsecure());
  const createMs: number[] = [];
  const bareMs: number[] = [];
  for (let index = -UNCOUNTED_PAIRS; index < pairs; index += 1) {
    const name = `volume${index + UNCOUNTED_PAIRS}`;
    const byLvmd = await timed(() => create(client, name));
    const byCommand = await timed(() => bare.lvm("lvcreate", ...argumentsOf(name), bare.group));
    if (index >= 0) createMs.push(byLvmd);
    if (index >= 0) bareMs.push(byCommand);
    await remove(client, name);
    await bare.lvm("lvremove", "--force", `${bare.group}/${name}`);
    await sleep(QUIET_MS);
  }
  client.close();
  const [lvmdP50, bareP50] = [quantile(createMs, 0.5), quantile(bareMs, 0.5)];
  const createOverheadRatio = round(lvmdP50 / bareP50, 3);
  say(`${pairs} volumes: CreateLV ${round(lvmdP50, 1)} ms, lvcreate ${round(bareP50, 1)} ms (p50)`);
  return { createMs: round(lvmdP50, 1), bareLvcreateMs: round(bareP50, 1), createOverheadRatio };
}

/** As lvmd gives them. */
function argumentsOf(name: string): string[] {
  const own = ["--config", "backup { backup=1 archive=0 }"];
  return [...own, "-n", name, "-L", `${VOLUME_BYTES}b`, "-W", "y", "-y", "--addtag", TAG];
}

async function timed(work: () => Promise<unknown>): Promise<number> {
  const startMs = performance.now();
  await work();
  return performance.now() - startMs;
}

function create(client: LVServiceClient, name: string): Promise<void> {
  const request = { name, tags: [TAG], deviceClass: "", lvcreateOptionClass: "", sizeBytes: VOLUME_BYTES };
  return new Promise((resolve, reject) => {
    client.createLv(request, (error) => (error === null ? resolve() : reject(error)));
  });
}

function remove(client: LVServiceClient, name: string): Promise<void> {
  return new Promise((resolve, reject) => {
    client.removeLv({ name, deviceClass: "" }, (error) => (error === null ? resolve() : reject(error)));
  });
}

async function listing(lvmd: LvmdProcess, served: MetadataOnlyLvm, say: Say) {
  const rates: number[] = [];
  for (const volumes of [FEW, MANY]) {
    for (let index = rates.length === 0 ? 0 : FEW; index < volumes; index += 1)
      await served.lvm("lvcreate", "-qq", "-y", "-n", `listed${index}`, "-L", "4m", served.group);
    await untilTold(lvmd, volumes);
    rates.push(await listsPerSecond(lvmd.socket, volumes));
    say(`GetLVList of ${volumes} volumes: ${round(rates.at(-1) ?? 0, 0)}/s`);
  }
  const idleForksPerMinute = await startedPrograms(lvmd.process.pid, IDLE_MS);
  say(`${idleForksPerMinute} programs started in a minute at rest, with ${MANY} volumes`);
  const [few = 0, many = 0] = rates;
  return { listPerSecond: round(few, 0), listPerSecond1000: round(many, 0), idleForksPerMinute };
}

/** It hears of what others have made. */
async function untilTold({ socket }: LvmdProcess, volumes: number): Promise<void> {
  const client = new VGServiceClient(`unix://${socket}`, credentials.createInsecure());
  const ask = (): Promise<true | undefined> =>
    new Promise((resolve, reject) => {
      client.getLvList({ deviceClass: "" }, (error, response) => {
        if (error !== null) reject(error);
        else resolve(response.volumes.length === volumes ? true : undefined);
      });
    });
  await waitFor(`lvmd to tell ${volumes} volumes`, ask, { intervalMs: QUIET_MS }).finally(() => client.close());
  await sleep(QUIET_MS);
}
