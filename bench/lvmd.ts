// What lvmd costs over the LVM command itself, on real LVM in a virtual machine, in turns with the same command with the same arguments;
// and how fast it tells what it knows, on this machine, of volumes that LVM has in its metadata alone. PAIRS=10 shortens it.
import { execFile } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";
import { credentials } from "@grpc/grpc-js";
import { VGServiceClient } from "../src/contracts/gen/topolvm/lvmd.ts";
import { createLvmdProcess, type LvmdProcess } from "../test/harness/lvmd-process.ts";
import { waitFor } from "../test/harness/wait-for.ts";
import { type Benchmark, quantile, round, type Say, settingFromEnvironment } from "./benchmark.ts";
import type { Creation } from "./lvmd/creation.ts";
import { listsPerSecond } from "./lvmd/list-rate.ts";
import { createMetadataOnlyLvm, type MetadataOnlyLvm } from "./lvmd/metadata-only-lvm.ts";
import { startedPrograms } from "./lvmd/started-programs.ts";

const execute = promisify(execFile);
const PAIRS = 50;
const QUIET_MS = 200;
const [FEW, MANY] = [10, 1000];
const IDLE_MS = 60_000;

export const lvmdBenchmark: Benchmark = async (say) => ({
  ...(await creation(say)),
  ...(await listingOnMetadata(say)),
});

async function listingOnMetadata(say: Say) {
  const directory = mkdtempSync("/dev/shm/tidemark-bench-lvmd-");
  const served = await createMetadataOnlyLvm(join(directory, "lvm"), "tidemark-bench");
  const lvmd = await createLvmdProcess(directory, served);
  try {
    await lvmd.start();
    return await listing(lvmd, served, say);
  } finally {
    await lvmd.process.stop();
    await served.remove();
    rmSync(directory, { recursive: true });
  }
}

/** On real logical volumes, which this machine's kernel may not have. */
async function creation(say: Say) {
  const pairs = settingFromEnvironment("PAIRS", PAIRS);
  const program = [process.execPath, "--import", "tsx", "bench/lvmd/creation-in-vm.ts", String(pairs)];
  const env = { ...process.env, VM_MODULES: "loop dm-mod", VM_SECONDS: "900" };
  const { stdout } = await execute("test/vm/run-in-vm.sh", ["4G 4G", ...program], { env });
  const { byLvmdMs, byCommandMs } = JSON.parse(stdout.trim().split("\n").at(-1) ?? "") as Creation;
  const [lvmdP50, bareP50] = [quantile(byLvmdMs, 0.5), quantile(byCommandMs, 0.5)];
  const createOverheadRatio = round(lvmdP50 / bareP50, 3);
  say(`${pairs} volumes on real LVM: CreateLV ${round(lvmdP50, 1)} ms, lvcreate ${round(bareP50, 1)} ms (p50)`);
  return { createMs: round(lvmdP50, 1), bareLvcreateMs: round(bareP50, 1), createOverheadRatio };
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
