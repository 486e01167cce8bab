// The suite of one story of power cuts, under each kernel: its test in test/real says how many, and what they must hit. TIDEMARK_SEED repeats
// a plan.
import { expect, it } from "@jest/globals";
import { describeReal } from "../../harness/real-parts.ts";
import { KERNELS } from "../kernels.ts";
import type { Story } from "./cut-plan.ts";
import { livePowerCuts } from "./power-cycles.ts";

export interface PowerCuts<Phase extends string> {
  /** "power cuts", and of what. */
  readonly name: string;
  /** What they do, by the number of them. */
  readonly claim: (cuts: number) => string;
  readonly story: Story;
  /** Of each of its lives, under the newer kernel and under the older one. */
  readonly cuts: { readonly newer: number; readonly older: number };
  /** One of each line is hit under the newer kernel. */
  readonly hit: readonly (readonly Phase[])[];
  readonly limitMs: number;
}

export function describePowerCuts<Phase extends string>(tested: PowerCuts<Phase>): void {
  const { name, claim, story, hit, limitMs } = tested;
  for (const { name: kernel, environment, parts } of KERNELS)
    describeReal(`${name} under the kernel ${kernel}`, ["root", "device-mapper", ...parts], () => {
      const isNewer = parts.includes("newer-uml");
      const cuts = isNewer ? tested.cuts.newer : tested.cuts.older;
      it(
        claim(cuts),
        async () => {
          const seed = Number(process.env["TIDEMARK_SEED"] ?? Date.now() % 2 ** 32);
          const told: string[] = [];
          const onCut = (text: string): void => void told.push(text);
          const hits = await livePowerCuts({ story, cuts, seed, environment, onCut });
          process.stderr.write(`${name} under ${kernel}, seed ${seed}: ${JSON.stringify(Object.fromEntries(hits))}\n`);
          for (const text of told.filter((one) => one.includes("behind"))) process.stderr.write(`${text}\n`);
          expect(told).toHaveLength(story.lives.length * cuts);
          if (isNewer) expect(hit.filter((phases) => !phases.some((phase) => hits.has(phase)))).toEqual([]);
        },
        limitMs,
      );
    });
}
