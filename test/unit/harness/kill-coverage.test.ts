import { describe, expect, it } from "@jest/globals";
import type { DeathNotes } from "../../harness/death-notes.ts";
import { killCoverage, type NotDiedAt } from "../../harness/kill-coverage.ts";

const POINTS = ["stage/format", "lease/renew", "demo/unmount", "stage/rename-xfs"];
const both = (...points: string[]) => points.flatMap((point) => [`${point}/before`, `${point}/after`]);
const NOTES = new Map<string, DeathNotes>([
  ["loop-crash", { killsAt: ["stage/format/before"], diedAt: ["stage/format/before"] }],
  ["kill-matrix", { killsAt: both("stage/format"), diedAt: ["stage/format/after"] }],
]);
const EXCEPTIONS: readonly NotDiedAt[] = [
  { at: "lease/renew", why: "at its own times", nowAndThen: true },
  { at: "demo", why: "the demo's own hand" },
  { at: "stage/rename-xfs", why: "a copy" },
];
const covered = (notes: ReadonlyMap<string, DeathNotes>, exceptions: readonly NotDiedAt[] = EXCEPTIONS) =>
  killCoverage(POINTS, notes, exceptions);
const withNotes = (suite: string, killsAt: readonly string[]) => new Map([...NOTES, [suite, { killsAt, diedAt: [] }]]);

describe("the check that suites die at every effect", () => {
  it("passes where suites and exceptions together name each passage, and counts them", () => {
    expect(covered(NOTES)).toEqual({ problems: [], passages: 8, killsAt: 2, diedAt: 2 });
  });

  it("names a passage that no suite dies at", () => {
    const onlyBefore = new Map([...NOTES].slice(0, 1));
    expect(covered(onlyBefore).problems).toEqual(["stage/format/after: no suite dies there, and it is not said why"]);
  });

  it("names a new effect that neither a suite nor an exception knows", () => {
    expect(killCoverage([...POINTS, "stage/new"], NOTES, EXCEPTIONS).problems).toHaveLength(2);
  });

  it("names an exception that a suite does die at", () => {
    const [problem] = covered(withNotes("demo-crash", ["demo/unmount/after"])).problems;
    expect(problem).toBe("demo/unmount/after: the list of exceptions names it, and demo-crash dies there");
  });

  it("takes a death where some runs die and others do not", () => {
    expect(covered(withNotes("kill-matrix-2", ["lease/renew/before"])).problems).toEqual([]);
  });

  it("names an exception of an effect that is no more", () => {
    expect(covered(NOTES, [...EXCEPTIONS, { at: "stage/gone", why: "" }]).problems).toEqual([
      "stage/gone: the list of exceptions names it, and there is no such effect",
    ]);
  });

  it("names a note of a passage that no effect has", () => {
    expect(covered(withNotes("kill-matrix-2", ["stage/fromat/after"])).problems).toEqual([
      "stage/fromat/after: no effect's passage",
    ]);
  });
});
