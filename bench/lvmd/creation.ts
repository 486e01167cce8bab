// One volume after the other, by lvmd and by the command that lvmd runs, in turns, so that both meet the same machine.
import { execFile } from "node:child_process";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";
import { credentials } from "@grpc/grpc-js";
import { LVServiceClient } from "../../src/contracts/gen/topolvm/lvmd.ts";
import { MIB } from "../../src/contracts/quantities/quantity.ts";

const execute = promisify(execFile);
const UNCOUNTED_PAIRS = 3;
/** What a change has started, such as lvmd's look at what others have changed, is over then. */
const QUIET_MS = 1000;
const VOLUME_BYTES = 64 * MIB;
const TAG = "tidemark.dev/claim=shop/cart";

export interface Creation {
  readonly byLvmdMs: readonly number[];
  readonly byCommandMs: readonly number[];
}

/** `group` is another one than that of lvmd's class. */
export async function measureCreation(socket: string, group: string, pairs: number): Promise<Creation> {
  const client = new LVServiceClient(`unix://${socket}`, credentials.createInsecure());
  const [byLvmdMs, byCommandMs]: [number[], number[]] = [[], []];
  for (let index = -UNCOUNTED_PAIRS; index < pairs; index += 1) {
    const name = `volume${index + UNCOUNTED_PAIRS}`;
    const lvmdMs = await timed(() => create(client, name));
    await sleep(QUIET_MS);
    const commandMs = await timed(() => execute("/sbin/lvm", ["lvcreate", ...argumentsOf(name), group]));
    if (index >= 0) byLvmdMs.push(lvmdMs);
    if (index >= 0) byCommandMs.push(commandMs);
    await remove(client, name);
    await execute("/sbin/lvm", ["lvremove", "--force", `${group}/${name}`]);
    await sleep(QUIET_MS);
  }
  client.close();
  return { byLvmdMs, byCommandMs };
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
