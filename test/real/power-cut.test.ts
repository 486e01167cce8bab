// Power cuts while a filesystem shrinks on real LVM under a writer that fsyncs: nothing acknowledged is lost, and no volume is ever cut before
// its filesystem has left. A machine of its own is killed by SIGKILL, and boots again on the same disks. TIDEMARK_SEED repeats a plan.
import { expect, it } from "@jest/globals";
import { describeReal } from "../harness/real-parts.ts";
import { KERNELS } from "../vm/kernels.ts";
import { livePowerCuts } from "../vm/power-cut/power-cycles.ts";
import { type Phase, SHRINKS } from "../vm/power-cut/shrink-plan.ts";

const LIMIT_MS = 3_600_000;
/** Of a thick volume, and as many of a thin one. */
const CUTS_UNDER_NEWER = 50;
const CUTS_UNDER_OLDER = 5;
/** One of each line is hit under the newer kernel. Those that take a few milliseconds share one. */
const HIT: readonly (readonly Phase[])[] = [
  ["resizing"],
  ["resized, before lvreduce"],
  ["zeroing what is cut off"],
  ["in lvreduce, not committed", "in lvreduce, committed", "reduced, not told yet"],
  ["between steps", "shrunk"],
];

for (const { name: kernel, environment, parts } of KERNELS)
  describeReal(`power cuts under the kernel ${kernel}`, ["root", "device-mapper", ...parts], () => {
    const isNewer = parts.includes("newer-uml");
    const cuts = isNewer ? CUTS_UNDER_NEWER : CUTS_UNDER_OLDER;
    it(
      `leave every filesystem within its volume and every acknowledged record whole, ${cuts} of each class`,
      async () => {
        const seed = Number(process.env["TIDEMARK_SEED"] ?? Date.now() % 2 ** 32);
        const told: string[] = [];
        const onCut = (text: string): void => void told.push(text);
        const hits = await livePowerCuts({ story: SHRINKS, cuts, seed, environment, onCut });
        process.stderr.write(`power cuts under ${kernel}, seed ${seed}: ${JSON.stringify(Object.fromEntries(hits))}\n`);
        for (const text of told.filter((one) => one.includes("behind"))) process.stderr.write(`${text}\n`);
        expect(told).toHaveLength(2 * cuts);
        if (isNewer) expect(HIT.filter((phases) => !phases.some((phase) => hits.has(phase)))).toEqual([]);
      },
      LIMIT_MS,
    );
  });
