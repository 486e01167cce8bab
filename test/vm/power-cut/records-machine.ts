// What runs inside the machine that loses its power while the agent writes its node records: every record that was acknowledged is there, as
// new as it was or newer, and each that is there is whole; then records are written, anew and over others, until the next cut. Some writes over
// others are not synced: a cut may leave those empty, and what was synced before is read in their place. Its argument:
// MachineSettings as JSON. Bundled by power-cycles.ts.
import { randomUUID } from "node:crypto";
import { existsSync, mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { createNodeRecords, type NodeRecord } from "../../../src/agent/volumes/node-records.ts";
import { directEffects } from "../../../src/platform/process/effects/effects.ts";
import { createFilePort, syncedPath } from "../../../src/platform/process/effects/file-port.ts";
import { attachDisks, end, fail, openDisk, RECORDS, STATE, say, settings } from "./node-in-machine.ts";

/** Written over and over by all boots; between two of them there is a new one each time. */
const LASTING = Array.from({ length: 4 }, (_, index) => `fs-00000000-0000-4000-8000-00000000000${index}`);
const WRITTEN = 200;
const EPOCHS_OF_BOOT = 1_000_000;

async function run(): Promise<void> {
  const [, state] = attachDisks();
  // As on xfs and btrfs: a rename brings nothing of the file to the disk.
  openDisk(state, STATE, "noauto_da_alloc");
  mkdirSync(RECORDS, { recursive: true });
  const unreadable: string[] = [];
  const records = createNodeRecords(RECORDS, createFilePort(directEffects), (path) => void unreadable.push(path));
  const found = records.readAll();
  // Each of these is followed by what was synced of it, or verify misses it.
  const torn = unreadable.filter((path) => !existsSync(syncedPath(path)));
  if (torn.length > 0) throw new Error(`torn: ${torn.join(", ")}`);
  say(`replaced ${unreadable.length}`);
  verify(new Map(found.map(({ handle, epoch }) => [handle, epoch])));
  if (settings.last) end();
  for (const { handle } of found) {
    if (LASTING.includes(handle)) continue;
    say(`gone ${handle}`);
    await records.remove(handle);
  }
  say("writing");
  for (let step = 0; ; step += 1) {
    if (step === WRITTEN) say("written");
    const handle = (step % 2 === 0 ? LASTING[(step / 2) % LASTING.length] : undefined) ?? `fs-${randomUUID()}`;
    const epoch = settings.boot * EPOCHS_OF_BOOT + step;
    if (isUnsynced(step)) {
      await records.write(recordOf(handle, epoch), "ProcessDeath");
      continue;
    }
    await records.write(recordOf(handle, epoch), "PowerCut");
    say(`acknowledged ${handle} ${epoch}`);
  }
}

/** Every other round over those that last; a new record is synced, as the first of each is. */
function isUnsynced(step: number): boolean {
  return step % 2 === 0 && Math.floor(step / 2 / LASTING.length) % 2 === 1;
}

/** `found`: the epoch of each record. */
function verify(found: ReadonlyMap<string, number>): void {
  const acknowledged = Object.entries(
    JSON.parse(readFileSync(join(settings.directory, "acknowledged.json"), "utf8")) as Record<string, string>,
  );
  for (const [handle, epoch] of acknowledged) {
    const present = found.get(handle);
    if (present === undefined) throw new Error(`acknowledged record ${handle} is gone`);
    if (present < Number(epoch)) throw new Error(`record ${handle} is of ${present}, and ${epoch} was acknowledged`);
  }
  say(`verified ${acknowledged.length}`);
}

function recordOf(handle: string, epoch: number): NodeRecord {
  return {
    ...{ backend: "loop", handle, fsType: "btrfs", memberMade: true, epoch },
    ...{ memberName: "member-0", memberFile: `/var/lib/tidemark/loops/${handle}.img` },
  };
}

run().catch(fail);
