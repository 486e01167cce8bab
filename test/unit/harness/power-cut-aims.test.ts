import { describe, expect, it } from "@jest/globals";
import { createAims } from "../../vm/power-cut/aims.ts";
import type { Life, Span } from "../../vm/power-cut/cut-plan.ts";
import { RECORDED } from "../../vm/power-cut/record-plan.ts";
import { SHRINKS } from "../../vm/power-cut/shrink-plan.ts";
import { UNMOUNTED_SHRINKS } from "../../vm/power-cut/unmounted-shrink-plan.ts";

const STORIES = { SHRINKS, UNMOUNTED_SHRINKS, RECORDED };
const [THICK, THIN] = SHRINKS.lives as [Life, Life];
const { plan } = SHRINKS;
const zeroing = plan.goals.find(({ deviceClass }) => deviceClass === "thick");

/** As many as a life of no luck makes: `phase` is what each of its cuts hits. */
function allOf(life: Life, cuts: number, phase: string, reachesGoals = true): Span[] {
  const aims = createAims(plan, life, { cuts, reachesGoals, hits: new Map() });
  const all: Span[] = [];
  for (let aim = aims.next(undefined); aim !== undefined; aim = aims.next(phase)) all.push(aim);
  return all;
}

describe.each(Object.entries(STORIES))("%s", (_name, { plan: { goals, spans }, lives }) => {
  it("measures what its goals are aimed at", () => {
    expect(goals.flatMap(({ aims }) => aims).filter((aim) => !spans.includes(aim))).toEqual([]);
  });

  it("has lives of different names, one of which can reach each goal", () => {
    expect(new Set(lives.map(({ name }) => name)).size).toBe(lives.length);
    const classes = new Set<string | undefined>([undefined, ...lives.map(({ deviceClass }) => deviceClass)]);
    expect(goals.filter(({ deviceClass }) => !classes.has(deviceClass))).toEqual([]);
  });
});

it("a commit's 24 cuts of a class are aimed at each goal, or at part of it", () => {
  const aimedAt = new Set(Array.from({ length: 24 }, (_, index) => plan.aim(index).line));
  expect(plan.goals.filter(({ aims }) => !aims.some(({ line }) => aimedAt.has(line)))).toEqual([]);
});

it("what was missed is aimed at again, each goal in turn, until it is hit or the limit is reached", () => {
  const again = allOf(THICK, 3, "resizing").slice(3);
  const missed = plan.goals.slice(1).flatMap(({ aims }) => aims);
  expect(again.slice(0, missed.length)).toEqual(missed);
  expect(again).toHaveLength(16);
});

it("a goal that another life has hit is not aimed at again, nor one that this life does not pass", () => {
  const hits = new Map(plan.goals.filter((goal) => goal !== zeroing).map(({ phases }) => [phases[0] ?? "", 1]));
  const first = (life: Life): Span | undefined =>
    createAims(plan, life, { cuts: 0, reachesGoals: true, hits }).next(undefined);
  expect(first(THIN)).toBeUndefined();
  expect(first(THICK)).toBe(zeroing?.aims[0]);
  hits.set(zeroing?.phases[0] ?? "", 1);
  expect(first(THICK)).toBeUndefined();
});

it("a replay makes the cuts of its plan and no other", () => {
  expect(allOf(THIN, 5, "resizing", false)).toEqual([0, 1, 2, 3, 4].map((index) => plan.aim(index)));
});
