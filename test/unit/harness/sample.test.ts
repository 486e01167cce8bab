import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "@jest/globals";
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

describe("a commit's number", () => {
  const before = { CI: process.env["CI"], [SAMPLE_VARIABLE]: process.env[SAMPLE_VARIABLE] };
  let directory: string;

  const git = (...command: readonly string[]): string =>
    execFileSync("git", ["-C", directory, "-c", "user.name=a", "-c", "user.email=a@example.org", ...command], {
      encoding: "utf8",
      stdio: ["ignore", "pipe", "ignore"],
    });

  beforeEach(() => {
    directory = mkdtempSync(join(tmpdir(), "tidemark-sample-"));
    delete process.env[SAMPLE_VARIABLE];
    delete process.env["CI"];
  });
  afterEach(() => {
    rmSync(directory, { recursive: true });
    for (const [name, value] of Object.entries(before)) {
      if (value === undefined) delete process.env[name];
      else process.env[name] = value;
    }
  });

  /** Three commits, of which a clone beside them has the last. */
  function shallowClone(): string {
    git("init", "--quiet", "--initial-branch", "main");
    for (const name of ["one", "two", "three"]) git("commit", "--quiet", "--allow-empty", "--message", name);
    git("clone", "--quiet", "--depth", "1", `file://${directory}`, "clone");
    return join(directory, "clone");
  }

  it("counts the commits before it, and is 0 without Git's history", () => {
    expect(commitCount(directory)).toBe(0);
    shallowClone();
    process.env["CI"] = "true";
    expect(commitCount(directory)).toBe(3);
  });

  it("is refused in CI in a shallow clone, which has the same one for every commit, with what to do", () => {
    const clone = shallowClone();
    process.env["CI"] = "true";
    expect(() => commitCount(clone)).toThrow("Run git fetch --unshallow");
    execFileSync("git", ["-C", clone, "fetch", "--quiet", "--unshallow"]);
    expect(commitCount(clone)).toBe(3);
  });

  it("is taken all the same in a shallow clone where it is given, or where nobody runs CI", () => {
    const clone = shallowClone();
    expect(commitCount(clone)).toBe(1);
    process.env["CI"] = "true";
    process.env[SAMPLE_VARIABLE] = "7";
    expect(commitCount(clone)).toBe(7);
  });
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
