import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "@jest/globals";
import { identityOf } from "../../../demo/show/run/process-table.ts";
import { runSuite } from "../../suites/run-suite.ts";
import { worthSecondTry } from "../../suites/second-try.ts";
import { longestFirst } from "../../suites/seconds.ts";
import { runInSlots } from "../../suites/slots.ts";
import { type SoakedSuite, type SoakFigures, soakOrder, soakWarning } from "../../suites/soak-figures.ts";

describe("jobs in slots", () => {
  it("are begun in their order, and no more of them run than there are slots", async () => {
    const begun: number[] = [];
    let [running, most] = [0, 0];
    const job = (index: number) => async (): Promise<void> => {
      begun.push(index);
      running += 1;
      most = Math.max(most, running);
      await new Promise((resolve) => setImmediate(resolve));
      running -= 1;
    };
    await runInSlots(
      [0, 1, 2, 3, 4].map((index) => job(index)),
      2,
    );
    expect({ begun, most }).toEqual({ begun: [0, 1, 2, 3, 4], most: 2 });
  });

  it("one that fails does not keep the others from being run", async () => {
    const ended: string[] = [];
    const fails = async (): Promise<void> => {
      throw new Error("no cluster");
    };
    const works = async (): Promise<void> => void ended.push("works");
    await expect(runInSlots([fails, works, works], 1)).rejects.toThrow("no cluster");
    expect(ended).toEqual(["works", "works"]);
  });
});

it("the longest are first, and one that nobody knows yet before them", () => {
  const seconds: Record<string, number> = { short: 5, long: 900 };
  expect(longestFirst(["short", "long", "new"], (name) => seconds[name])).toEqual(["new", "long", "short"]);
});

describe("suites that have failed", () => {
  it("are tried once more where they are few", () => {
    const failed = ["test/e2e/lvm.test.ts", "test/real/lvmd-trouble.test.ts"];
    expect(worthSecondTry(failed)).toEqual(failed);
  });

  it("are not tried again where one of them looks for a failure in many tries", () => {
    for (const finding of ["agent-lvm-crash", "lvmd-kill", "power-cut-span", "hostile-shrinks", "span-lost"])
      expect(worthSecondTry(["test/e2e/lvm.test.ts", `test/real/${finding}.test.ts`])).toEqual([]);
  });

  it("are not tried again where they are many", () => {
    expect(worthSecondTry(["a", "b", "c", "d"].map((name) => `test/unit/${name}.test.ts`))).toEqual([]);
  });
});

describe("a suite that is run by a jest of its own", () => {
  let directory: string;
  const suite = (name: string, body: string): string => {
    const path = join(directory, `${name}.test.ts`);
    writeFileSync(path, `import { expect, it } from "@jest/globals";\n${body}\n`);
    return path;
  };
  const run = (path: string, limitSeconds = 120) =>
    runSuite({ suite: path, environment: { PROBE: "x" }, limitSeconds });

  beforeAll(() => {
    directory = mkdtempSync("test/unit/suites/run-");
  });
  afterAll(() => rmSync(directory, { recursive: true }));

  it("tells how many of its tests passed, with the environment that it was given", async () => {
    const path = suite("well", `it("a", () => expect(process.env.PROBE).toBe("x")); it.skip("b", () => undefined);`);
    expect(await run(path)).toMatchObject({ ok: true, passed: 1, failed: 0, skipped: 1 });
  });

  it("has failed where one of its tests has, and its output says which", async () => {
    const result = await run(suite("badly", `it("keeps its promise", () => expect(1).toBe(2));`));
    expect(result).toMatchObject({ ok: false, passed: 0, failed: 1 });
    expect(readFileSync(result.log, "utf8")).toContain("keeps its promise");
  });

  it("has failed where it cannot even be read", async () => {
    expect(await run(suite("broken", "this is no test"))).toMatchObject({ ok: false });
  });

  it("is ended when it takes longer than it may", async () => {
    const result = await run(suite("hangs", `it("hangs", () => new Promise(() => undefined), 1e9);`), 4);
    expect(result).toMatchObject({ ok: false, passed: 0 });
    expect(readFileSync(result.log, "utf8")).toContain("was ended: it was not done after 4 s");
  });
});

it("a second run in a tree ends with an error that says which process runs there, and removes none of its notes", () => {
  const tree = mkdtempSync(join(tmpdir(), "tidemark-one-run-"));
  try {
    const notes = join(tree, ".tidemark", "deaths", "suite.json");
    mkdirSync(dirname(notes), { recursive: true });
    writeFileSync(notes, "{}");
    const { pid, startTicks } = identityOf(process.pid) ?? {};
    writeFileSync(join(tree, ".tidemark", "run.lock"), `${pid} ${startTicks}\n`);
    const [tsx, main] = ["node_modules/tsx/dist/esm/index.mjs", "test/suites/main.ts"].map((path) => resolve(path));
    const args = ["--import", `file://${tsx}`, `${main}`, "test/real/none.test.ts"];
    const env = { ...process.env, NODE_OPTIONS: "" };
    const { status, stderr } = spawnSync(process.execPath, args, { cwd: tree, env, encoding: "utf8" });
    expect({ status, stderr }).toEqual({ status: 1, stderr: expect.stringContaining(`process ${pid} runs suites`) });
    expect(readFileSync(notes, "utf8")).toBe("{}");
  } finally {
    rmSync(tree, { recursive: true });
  }
});

describe("the figures of the long run", () => {
  const suites = ["a", "b", "c"];
  const soaked = (commit: number, failed = 0): SoakedSuite => ({ commit, seconds: 60, passed: 3, failed });
  const warning = (figures: SoakFigures) => soakWarning(figures, 500, suites);

  it("are no reason to warn while each suite passed within the last hundred commits", () => {
    expect(warning({ a: soaked(500), b: soaked(450), c: soaked(400) })).toBeUndefined();
  });

  it("are warned about by the names of the suites that failed, never ran, or ran long ago", () => {
    expect(warning({ a: soaked(399), b: soaked(500, 1) })).toMatch(
      /failed: b; never ran: c; ran more than 100 commits ago: a$/,
    );
  });

  it("put what failed or never ran first, then the oldest, and equally old suites as they are listed", () => {
    expect(soakOrder(["a", "b", "c", "d", "e"], { a: soaked(2), b: soaked(1), c: soaked(3, 1), d: soaked(1) })).toEqual(
      [...["c", "e"], ...["b", "d"], "a"],
    );
  });
});
