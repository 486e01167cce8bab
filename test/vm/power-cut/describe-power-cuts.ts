// The suite of one story of power cuts: its test in test/real says how many. A commit has its own plan; TIDEMARK_SEED repeats one; those that
// once failed are replayed each time. In the long run TIDEMARK_CUTS says how many cuts all stories make together.
import { basename } from "node:path";
import { expect, it } from "@jest/globals";
import { describeReal } from "../../harness/real-parts.ts";
import { takesAll } from "../../harness/sample.ts";
import { noteFigures } from "../../soak/figures.ts";
import { kernelsOfRun, type VmKernel } from "../kernels.ts";
import { missedGoals, type Story } from "./cut-plan.ts";
import { type FailedSeed, livePowerCuts } from "./power-cycles.ts";
import { failedSeeds, seedOfRun } from "./seeds.ts";

export interface PowerCuts {
  /** "power cuts", and of what. */
  readonly name: string;
  /** In test/seeds.json. */
  readonly list: string;
  /** What they do, by the number of them. */
  readonly claim: (cuts: number) => string;
  readonly story: Story;
  /** Of each of its lives. */
  readonly cuts: {
    readonly commit: number;
    /** Of LONG_RUN_CUTS that all stories make together. */
    readonly longRun: number;
    /** In the long run alone. */
    readonly olderKernel: number;
  };
}

/** The sum of `longRun` over all lives of all stories: LVM 2 x 130, unmounted 2 x 35, records 50, loop 50, span 70. */
const LONG_RUN_CUTS = 500;
const BASE_LIMIT_MS = 1_800_000;
const CUT_LIMIT_MS = 30_000;

export function describePowerCuts(tested: PowerCuts): void {
  for (const kernel of kernelsOfRun())
    describeReal(`${tested.name} under the kernel ${kernel.name}`, ["root", "device-mapper", ...kernel.parts], () => {
      const isNewer = kernel.parts.includes("newer-uml");
      const cuts = isNewer ? cutsOfRun(tested) : tested.cuts.olderKernel;
      const limitMs = BASE_LIMIT_MS + cuts * CUT_LIMIT_MS;
      it(tested.claim(cuts), () => live(tested, kernel, cuts, isNewer), limitMs);
      if (!isNewer) return;
      for (const seed of failedSeeds(tested.list, tested.story.lives))
        it(`replay ${JSON.stringify(seed)}, which once failed`, () => replay(tested, kernel, seed), limitMs);
    });
}

function cutsOfRun({ cuts }: PowerCuts): number {
  const all = Number(process.env["TIDEMARK_CUTS"] || LONG_RUN_CUTS);
  return takesAll() ? Math.ceil((cuts.longRun * all) / LONG_RUN_CUTS) : cuts.commit;
}

async function live(tested: PowerCuts, kernel: VmKernel, cuts: number, reachesGoals: boolean): Promise<void> {
  const { name, story } = tested;
  const seed = seedOfRun();
  const { hits, told } = await run(tested, kernel, { story, seed, cuts, reachesGoals });
  const summary = `${told.length} cuts, ${JSON.stringify(Object.fromEntries(hits))}`;
  process.stderr.write(`${name} under the kernel ${kernel.name}, TIDEMARK_SEED=${seed}: ${summary}\n`);
  const suite = basename(expect.getState().testPath ?? "", ".test.ts");
  noteFigures(suite, { [`kernel ${kernel.name}`]: { seed, cuts: told.length, phases: Object.fromEntries(hits) } });
  expect(told.length).toBeGreaterThanOrEqual(story.lives.length * cuts);
  if (reachesGoals) expect(missedGoals(story.plan.goals, new Set(hits.keys()))).toEqual([]);
}

async function replay(tested: PowerCuts, kernel: VmKernel, { seed, life, cuts }: FailedSeed): Promise<void> {
  const lives = tested.story.lives.filter(({ name }) => name === life);
  expect(lives).toHaveLength(1);
  const { told } = await run(tested, kernel, { story: { ...tested.story, lives }, seed, cuts, reachesGoals: false });
  expect(told).toHaveLength(cuts);
}

type Plan = Pick<Parameters<typeof livePowerCuts>[0], "story" | "seed" | "cuts" | "reachesGoals">;

async function run(
  { list }: PowerCuts,
  { environment }: VmKernel,
  plan: Plan,
): Promise<{ readonly hits: ReadonlyMap<string, number>; readonly told: readonly string[] }> {
  const told: string[] = [];
  const hits = await livePowerCuts({
    ...plan,
    environment,
    onCut: (text) => {
      told.push(text);
      if (text.includes("behind")) process.stderr.write(`${text}\n`);
    },
    onDamage: (seed) =>
      void process.stderr.write(`damaged; in test/seeds.json, "${list}": ${JSON.stringify(seed)} replays it\n`),
  });
  return { hits, told };
}
