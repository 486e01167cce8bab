import { readFileSync } from "node:fs";
import { afterAll, beforeAll, expect, it } from "@jest/globals";
import { bisect, tellCulprits } from "../harness/bisect.ts";
import { noteDeaths } from "../harness/death-notes.ts";
import { deathPairs } from "../harness/death-pairs.ts";
import { collectKillPoints, type KillPoint, liveWithKills, spreadOverLives } from "../harness/kill-points.ts";
import { INITIAL_SIZE, type Phase } from "../harness/lifecycle.ts";
import { describeReal, STACK_PARTS } from "../harness/real-parts.ts";
import { createStack, STACK_PROCESSES, type Stack } from "../harness/stack.ts";

const MATRIX_LIMIT_MS = 2_400_000;
/** Of one process in one phase of one life. */
const DEATHS_AT_ONCE = 3;
/** A point that a life's other deaths keep a process from is left over for the next round. */
const ROUNDS_LIMIT = 3;
/** Of the long run. */
const PAIRS = 60;
/** The death that makes one fail is looked for, and that takes long enough. */
const FAILED_LIVES_LIMIT = 1;

/** Of the crowded life, those in which a shrink does what it does not in the plain one. */
const REPACKING_PHASES: readonly Phase[] = ["repack", "interrupt"];
/** A process passes them in the background, at its own times; or one of two, as it was interrupted in the one or the other. */
const PASSED_NOW_AND_THEN =
  /^((lease|event|approval|agent-samples|trim|node-storage|capacity)\/|shrink\/cancel-(balance|resize)\/)/;
/** What the backend lvm does to shrink, which no life here passes. */
const OF_LVM = /reduc|-beside-lvmd/;

/** What each process does when it starts, which a clean run has behind it before its first phase; every life starts them all in it. */
const OF_A_START: readonly KillPoint[] = (
  [
    ["operator", "lease/take"],
    ["policy-engine", "lease/take"],
    ["agent", "node-storage/object"],
    ["agent", "node-storage/status"],
    ["agent", "agent-samples/open-stream"],
  ] as const
).flatMap(([owner, point]) =>
  (["before", "after"] as const).map((moment) => ({
    ...({ life: "plain", phase: "create", owner } as const),
    passage: `${point}/${moment}`,
  })),
);

const isAwaited = (passage: string): boolean => !PASSED_NOW_AND_THEN.test(passage);
const tell = ({ phase, owner, passage }: KillPoint): string => `${owner} at ${passage} during ${phase}`;
const listed = JSON.parse(readFileSync("test/effect-points.json", "utf8")) as string[];

describeReal("processes that die by SIGKILL, at every point of a volume's life", STACK_PARTS, () => {
  let stack: Stack;
  let points: readonly KillPoint[] = [];
  const diedAt = new Set<string>();
  let lives = 0;
  let failedLives = 0;

  beforeAll(async () => {
    stack = await createStack({ initialSize: INITIAL_SIZE });
    const passed = await collectKillPoints(stack, "plain");
    points = [...passed, ...OF_A_START.filter((point) => !passed.some((one) => tell(one) === tell(point)))];
  }, MATRIX_LIMIT_MS);

  afterAll(async () => {
    const certain = points.map(({ passage }) => passage).filter(isAwaited);
    noteDeaths("kill-matrix", { killsAt: [...certain, ...diedAt], diedAt: [...diedAt] });
    await stack.close();
  }, MATRIX_LIMIT_MS);

  it("passes no point that the generated list lacks", () => {
    const passed = points.map(({ passage }) => passage.slice(0, passage.lastIndexOf("/")));
    expect([...new Set(passed)].filter((point) => !listed.includes(point))).toEqual([]);
  });

  it(
    "come back, finish what was begun, and keep every file",
    async () => {
      const failures: string[] = [];
      let pending = points;
      for (let round = 1; round <= ROUNDS_LIMIT && pending.length > 0; round += 1) {
        const died: KillPoint[] = [];
        for (const life of spreadOverLives(pending, DEATHS_AT_ONCE)) died.push(...(await liveOnce(life, failures)));
        pending = pending.filter((point) => isAwaited(point.passage) && !died.includes(point));
      }
      expect(failures).toEqual([]);
    },
    MATRIX_LIMIT_MS,
  );

  it(
    "come back and finish a shrink that repacks chunks, and one that is interrupted",
    async () => {
      const failures: string[] = [];
      await liveOnce(repackingPoints(), failures);
      expect(failures).toEqual([]);
    },
    MATRIX_LIMIT_MS,
  );

  it(
    "come back from two deaths at any two points",
    async () => {
      const { pairs, tell: tellPair } = deathPairs("kill-matrix", points.map(tell), PAIRS);
      const failures: string[] = [];
      for (const pair of pairs) {
        const failed: string[] = [];
        await liveOnce(
          points.filter((point) => pair.includes(tell(point))),
          failed,
        );
        failures.push(...failed.map((failure) => tellPair(pair, failure)));
      }
      expect(failures).toEqual([]);
    },
    MATRIX_LIMIT_MS,
  );

  it("have died at every point, in one phase or another", () => {
    const passages = new Set([
      ...points.map(({ passage }) => passage),
      "shrink/balance/before",
      "shrink/balance/after",
    ]);
    expect([...passages].filter((passage) => !diedAt.has(passage) && isAwaited(passage))).toEqual([]);
  });

  /** Every effect of a shrink that a plain life does not pass. */
  function repackingPoints(): KillPoint[] {
    const passed = new Set(points.map(({ passage }) => passage));
    const passages = listed
      .filter((point) => point.startsWith("shrink/") && !OF_LVM.test(point))
      .flatMap((point) => [`${point}/before`, `${point}/after`]);
    return passages
      .filter((passage) => !passed.has(passage))
      .flatMap((passage) =>
        REPACKING_PHASES.map((phase) => ({ life: "crowded", phase, owner: "agent", passage }) as const),
      );
  }

  /** Those at which a process died. Where the life fails, it is lived again with ever fewer of its deaths. */
  async function liveOnce(planned: readonly KillPoint[], failures: string[]): Promise<readonly KillPoint[]> {
    if (failedLives >= FAILED_LIVES_LIMIT) return [];
    let died: readonly KillPoint[] = [];
    const fails = async (some: readonly KillPoint[]): Promise<string | undefined> => {
      lives += 1;
      try {
        died = await liveWithKills(stack, some, `life-${lives}`, isAwaited);
        return undefined;
      } catch (error) {
        stack = await replaceStack(stack);
        return String(error);
      }
    };
    const failure = await fails(planned);
    if (failure === undefined) {
      for (const { passage } of died) diedAt.add(passage);
      return died;
    }
    failedLives += 1;
    failures.push(tellCulprits(planned, failure, await bisect(planned, failure, fails), tell));
    return [];
  }
});

/** After a failure nothing is known about the old one. */
async function replaceStack(old: Stack): Promise<Stack> {
  await old.close();
  const stack = await createStack({ initialSize: INITIAL_SIZE });
  for (const name of STACK_PROCESSES) await stack.start(name);
  return stack;
}
