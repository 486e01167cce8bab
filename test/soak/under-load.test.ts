// Volumes that come, grow, shrink under a writer and go, again and again for TIDEMARK_SOAK_MINUTES: every file keeps its checksum, and neither
// a process nor the kernel holds more and more. In `make soak` alone.
import { existsSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "@jest/globals";
import { loopDevicesUnder, mountsUnder } from "../../demo/show/run/mount-table.ts";
import { GIB, MIB } from "../../src/contracts/quantities/quantity.ts";
import { describeReal, STACK_PARTS } from "../harness/real-parts.ts";
import { STACK_PROCESSES, type Stack, startStack } from "../harness/stack.ts";
import { applyPolicy, createVolume, deleteVolume, labelClaim, waitForSize } from "../harness/volume.ts";
import { waitFor } from "../harness/wait-for.ts";
import { startWriter, verifyFiles } from "../integration/storage/written-files.ts";
import { noteFigures } from "./figures.ts";
import { growthOf, type ProcessUse, processUse } from "./process-use.ts";

const MINUTES = Number(process.env["TIDEMARK_SOAK_MINUTES"] || 60);
const VOLUMES_AT_ONCE = 4;
const SIZES = { small: GIB, large: 2 * GIB } as const;
/** Of four quarters, each with some. */
const CYCLES_MIN = 12;
/** Beyond this much more than before, memory is not only what a garbage collector puts off. */
const RSS_GROWTH_RATIO = 0.15;
const RSS_GROWTH_BYTES = 24 * MIB;
/** Connections and watches come and go. */
const DESCRIPTORS_GROWTH = 4;

describeReal("an hour under load", STACK_PARTS, () => {
  let stack: Stack;

  beforeAll(async () => {
    stack = await startStack({ initialSize: "1Gi" });
    await applyPolicy(stack, "size-by-label", {
      mode: { extend: "Enforce", shrink: "Enforce" },
      limits: { min: "512Mi", max: "4Gi", minAvailable: "64Mi" },
      rules: [
        { name: "large", action: "Extend", when: 'volume.labels["size"] == "large"', to: "2Gi" },
        { name: "small", action: "Shrink", when: 'volume.labels["size"] == "small"', to: "1Gi" },
      ],
      behavior: {
        extend: { cooldown: "0s", minStep: "16Mi" },
        shrink: { stabilization: "0s", cooldown: "0s", minStep: "16Mi" },
      },
    });
  });

  afterAll(() => stack.close());

  it(
    "loses no byte, and holds no more memory, descriptors, threads and loop devices at its end than at its beginning",
    async () => {
      const samples = new Map<string, ProcessUse[]>(STACK_PROCESSES.map((name) => [name, []]));
      const endMs = performance.now() + MINUTES * 60_000;
      let cycles = 0;
      for (; cycles < CYCLES_MIN || performance.now() < endMs; cycles += 1) {
        const names = Array.from({ length: VOLUMES_AT_ONCE }, (_, index) => `load-${cycles}-${index}`);
        await Promise.all(names.map((name) => breathe(stack, name)));
        expect([...loopDevicesUnder(stack.directory), ...mountsUnder(stack.directory)]).toEqual([]);
        for (const [name, uses] of samples) uses.push(processUse(pidOf(stack, name)));
      }
      const growth = Object.fromEntries([...samples].map(([name, uses]) => [name, growthOf(uses)]));
      noteFigures("under-load", { minutes: MINUTES, cycles, volumes: cycles * VOLUMES_AT_ONCE, growth });
      expect(Object.entries(growth).flatMap(([name, { early, late }]) => leaksOf(name, early, late))).toEqual([]);
    },
    (MINUTES + 30) * 60_000,
  );
});

function pidOf({ processes }: Stack, name: string): number {
  const found = Object.values(processes).find((one) => one.name === name);
  if (found === undefined) throw new Error(`there is no process ${name}`);
  return found.pid;
}

/** Written to all the time while it grows and shrinks. */
async function breathe(stack: Stack, name: string): Promise<void> {
  const volume = await createVolume(stack, name, { request: "1Gi", labels: { size: "as-it-is" } });
  const manifest = join(stack.directory, `${name}.sums`);
  const writer = startWriter(volume.mountPath, manifest, { megabytesPerSecond: 8, keptFiles: 20 });
  try {
    await waitFor(`the first file of ${name}`, () => existsSync(manifest) || undefined);
    for (const size of ["large", "small"] as const) {
      await labelClaim(stack, volume, { size });
      await waitForSize(stack, volume, SIZES[size]);
    }
  } finally {
    await writer.stop();
  }
  const { files, corrupt } = verifyFiles(volume.mountPath, manifest);
  expect({ error: writer.error(), corrupt, wasWritten: files > 0 }).toEqual({
    error: undefined,
    corrupt: [],
    wasWritten: true,
  });
  await deleteVolume(stack, volume);
}

function leaksOf(name: string, early: ProcessUse, late: ProcessUse): string[] {
  const told = (what: keyof ProcessUse): string => `${name}: ${what} from ${early[what]} to ${late[what]}`;
  return [
    ...(late.rssBytes > early.rssBytes * (1 + RSS_GROWTH_RATIO) + RSS_GROWTH_BYTES ? [told("rssBytes")] : []),
    ...(late.descriptors > early.descriptors + DESCRIPTORS_GROWTH ? [told("descriptors")] : []),
    ...(late.threads > early.threads ? [told("threads")] : []),
  ];
}
