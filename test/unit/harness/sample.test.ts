import { expect, it } from "@jest/globals";
import { commitCount, isSampled, SAMPLE_VARIABLE, sampleOf } from "../../harness/sample.ts";

const NAMES = Array.from({ length: 200 }, (_, index) => `operation/step-${index}/before`);

it("n commits in a row take every case, each of them once", () => {
  const commits = [0, 1, 2, 3];
  const taken = commits.flatMap((commit) => NAMES.filter((name) => sampleOf(name, 4) === commit % 4));
  expect(taken.sort()).toEqual([...NAMES].sort());
});

it("no sample is much larger than another", () => {
  const sizes = [0, 1, 2, 3].map((sample) => NAMES.filter((name) => sampleOf(name, 4) === sample).length);
  expect(Math.min(...sizes)).toBeGreaterThan(NAMES.length / 8);
});

it("a case is in the same sample on every machine", () => {
  expect(sampleOf("extend/grow-file/after", 1000)).toBe(462);
});

it("a commit's number is a whole one, with or without Git's history", () => {
  expect(Number.isInteger(commitCount())).toBe(true);
});

it("a number that is given stands for the commit's, so that a machine without Git takes the same cases", () => {
  const before = process.env[SAMPLE_VARIABLE];
  try {
    for (const commit of [0, 7, 46]) {
      process.env[SAMPLE_VARIABLE] = String(commit);
      expect(NAMES.filter((name) => isSampled(name, 4))).toEqual(
        NAMES.filter((name) => sampleOf(name, 4) === commit % 4),
      );
    }
  } finally {
    if (before === undefined) delete process.env[SAMPLE_VARIABLE];
    else process.env[SAMPLE_VARIABLE] = before;
  }
});
