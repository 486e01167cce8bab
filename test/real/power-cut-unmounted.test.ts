// Power cuts while the ext4 of an unmounted thin volume is made smaller on real LVM, and while that is taken back: nothing acknowledged is
// lost, the filesystem is whole, and each is ended without anybody's help. As power-cut.test.ts; TIDEMARK_SEED repeats a plan.
import { expect, it } from "@jest/globals";
import { describeReal } from "../harness/real-parts.ts";
import { KERNELS } from "../vm/kernels.ts";
import { livePowerCuts } from "../vm/power-cut/power-cycles.ts";
import { UNMOUNTED_SHRINKS, type UnmountedPhase } from "../vm/power-cut/unmounted-shrink-plan.ts";

const LIMIT_MS = 1_800_000;
/** Of each of two volumes. */
const CUTS_UNDER_NEWER = 12;
const CUTS_UNDER_OLDER = 3;
/** One of each line is hit under the newer kernel. Those that take a few milliseconds share one. */
const HIT: readonly (readonly UnmountedPhase[])[] = [
  ["before the snapshot"],
  ["being resized"],
  ["being taken back"],
  ["resized, not proven", "proven, not reduced", "reduced, not ended"],
  ["ended"],
];

for (const { name: kernel, environment, parts } of KERNELS)
  describeReal(
    `power cuts of unmounted shrinks under the kernel ${kernel}`,
    ["root", "device-mapper", ...parts],
    () => {
      const isNewer = parts.includes("newer-uml");
      const cuts = isNewer ? CUTS_UNDER_NEWER : CUTS_UNDER_OLDER;
      it(
        `leave every filesystem and every acknowledged record whole, ${cuts} of each of two volumes`,
        async () => {
          const seed = Number(process.env["TIDEMARK_SEED"] ?? Date.now() % 2 ** 32);
          const told: string[] = [];
          const onCut = (text: string): void => void told.push(text);
          const hits = await livePowerCuts({ story: UNMOUNTED_SHRINKS, cuts, seed, environment, onCut });
          process.stderr.write(
            `power cuts of unmounted shrinks under ${kernel}, seed ${seed}: ${JSON.stringify(Object.fromEntries(hits))}\n`,
          );
          expect(told).toHaveLength(2 * cuts);
          if (isNewer) expect(HIT.filter((phases) => !phases.some((phase) => hits.has(phase)))).toEqual([]);
        },
        LIMIT_MS,
      );
    },
  );
