// What runs inside the machine that loses its power while a span gets a member, grows it and gives it back: it looks at what the last power cut
// has left, before anything may mend it; then agent and operator recover, every record that was acknowledged is verified, and they work under a
// writer until the next cut. Its argument: MachineSettings as JSON. Bundled by power-cycles.ts.
import { randomUUID } from "node:crypto";
import { closeSync, existsSync, fsyncSync, openSync, readFileSync, writeSync } from "node:fs";
import { join } from "node:path";
import { createFaultEffects } from "../../../src/platform/process/effects/effects.ts";
import { startLoopMemberDriver } from "../../harness/loop-member-driver.ts";
import { DRIVER, spanStorageIn } from "../../integration/storage/span-fixture.ts";
import { MIB } from "../../integration/storage/storage-fixture.ts";
import { knownOutside, noteOutside } from "./known-outside.ts";
import {
  attachDisks,
  end,
  fail,
  openDisk,
  STATE,
  scatter,
  settings,
  sh,
  startWriter,
  TOLD,
  VOLUMES,
  verifyRecords,
  waitForTheCut,
} from "./node-in-machine.ts";
import { knownSpan, type SpanName } from "./span-layout.ts";
import { type LeftDevices, lookAtSpan } from "./span-left.ts";
import { createSpanWork, type SpanWork, type WorkedSpan } from "./span-work.ts";

const FIRST_BYTES = 1536 * MIB;
const ADDED_BYTES = 1536 * MIB;
const GROWN_BYTES = 1792 * MIB;
const FRESH_BYTES = 256 * MIB;
const SCATTERED_FILES = 10;
/** A file on the fresh one, and what is known outside of what is in it. */
const TEXT = "written-on-fresh";

const [data, state] = attachDisks();
// The node's own disk has its records; members' volumes are on others.
openDisk(state, STATE);
openDisk(data, VOLUMES);

async function run(): Promise<void> {
  const left = { lasting: look("lasting"), fresh: look("fresh") };
  const driver = await startLoopMemberDriver(DRIVER, VOLUMES, join(STATE, "plugins_registry"));
  const storage = spanStorageIn(STATE, createFaultEffects([], TOLD));
  const lasting = createSpanWork("lasting", storage, driver);
  const fresh = createSpanWork("fresh", storage, driver);
  const span = await lasting.mount(knownSpan("lasting") ?? lasting.make(FIRST_BYTES), left.lasting);
  verifyRecords(span.mounted.mountPath);
  await endFresh(fresh, left.fresh);
  if (settings.last) {
    await lasting.unmountAndForget(await lasting.removeLeaving(span));
    await driver.stop();
    end();
  }
  await useFresh(await fresh.mount(fresh.make(FRESH_BYTES), new Map()));
  await workUnderWriter(lasting, await lasting.removeLeaving(span));
  await waitForTheCut();
}

function look(name: SpanName): LeftDevices {
  const known = knownSpan(name);
  return known === undefined ? new Map() : lookAtSpan(known);
}

async function workUnderWriter(work: SpanWork, span: WorkedSpan): Promise<void> {
  const grown = await work.growSecond(await work.add(span, ADDED_BYTES), GROWN_BYTES);
  scatter(grown.mounted.mountPath, SCATTERED_FILES, 0);
  // What is on the first member moves to the larger one, and has to move back.
  sh(`btrfs balance start -ddevid=1 ${grown.mounted.mountPath}`);
  startWriter(grown.mounted.mountPath);
  await work.removeLeaving(work.sendOthersAway(grown));
}

async function useFresh({ mounted }: WorkedSpan): Promise<void> {
  const text = randomUUID();
  const file = openSync(join(mounted.mountPath, TEXT), "w");
  writeSync(file, text);
  fsyncSync(file);
  closeSync(file);
  noteOutside(TEXT, text);
}

/** What the boot before has made has what was written on it, and goes. */
async function endFresh(work: SpanWork, left: LeftDevices): Promise<void> {
  const known = knownSpan("fresh");
  if (known === undefined) return;
  const span = await work.mount(known, left);
  const written = knownOutside<string | null>(TEXT) ?? undefined;
  const path = join(span.mounted.mountPath, TEXT);
  if (written !== undefined && (!existsSync(path) || readFileSync(path, "utf8") !== written))
    throw new Error(`${path} has not what was acknowledged on it`);
  noteOutside(TEXT, null);
  await work.unmountAndForget(span);
}

run().catch(fail);
