// Lives of several deaths find a bug that only a death shows, and name the one death: shown on a small process that makes things and
// records each, and of which one forgets to record what a dead one has made.
import { spawn } from "node:child_process";
import { existsSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, describe, expect, it } from "@jest/globals";
import { buildSync } from "esbuild";
import type { ProcessEnd } from "../../harness/bundle-process.ts";
import { type CrashingOperator, liveWithEachDeath } from "../../harness/crashing-operator.ts";
import { waitFor } from "../../harness/wait-for.ts";

const REPOSITORY = fileURLToPath(new URL("../../../", import.meta.url));
const THINGS = ["a", "b", "c", "d"];
const PROGRAM = `
import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createFaultEffects, parsePlantedFaults } from "./src/platform/process/effects/effects.ts";
const [world, forgotten, isFirst] = process.argv.slice(2);
const effects = createFaultEffects(parsePlantedFaults(process.env.TIDEMARK_FAULT), process.env.TIDEMARK_EFFECT_LOG);
const isThere = (name) => existsSync(join(world, name));
const write = (point, name) => effects.run(point, async () => writeFileSync(join(world, name), ""));
while (!isThere("begin")) await new Promise((resolve) => setTimeout(resolve, 5));
if (isFirst) await write("create-volume/member", "race");
for (const thing of ${JSON.stringify(THINGS)}) {
  const wasMade = isThere(thing);
  if (!wasMade) await write("make/" + thing, thing);
  if (wasMade && thing === forgotten) continue;
  if (!isThere(thing + "-record")) await write("record/" + thing, thing + "-record");
}
if (!isThere("end")) writeFileSync(join(world, "end"), "");
setInterval(() => undefined, 1000);
`;

describe("lives with several deaths each", () => {
  let directory: string;
  let world: string;

  beforeEach(() => {
    directory = mkdtempSync(join(tmpdir(), "tidemark-lived-deaths-"));
    world = mkdtempSync(join(directory, "world-"));
    const outfile = join(directory, "program.mjs");
    const stdin = { contents: PROGRAM, resolveDir: REPOSITORY };
    buildSync({ stdin, outfile, bundle: true, platform: "node", format: "esm", logLevel: "error" });
  });
  afterEach(() => rmSync(directory, { recursive: true }));

  /** `isFirst`: its first process writes what no later one does. */
  function maker(forgotten: string, isFirst = ""): CrashingOperator {
    let end: Promise<ProcessEnd> = Promise.resolve({ code: 0, signal: null });
    let stop = (): boolean => true;
    let first = isFirst;
    return {
      directory,
      name: "maker",
      start: async (environment) => {
        const args = [join(directory, "program.mjs"), world, forgotten, first];
        first = "";
        const child = spawn(process.execPath, args, { env: environment, stdio: ["ignore", "ignore", "inherit"] });
        stop = () => child.kill("SIGTERM");
        end = new Promise((resolve) => child.once("exit", (code, signal) => resolve({ code, signal })));
      },
      ended: () => end,
      stop: async () => {
        stop();
        await end;
      },
    };
  }

  async function live(): Promise<void> {
    writeFileSync(join(world, "begin"), "");
    await waitFor("the end", () => existsSync(join(world, "end")) || undefined);
    const unrecorded = THINGS.filter((thing) => !existsSync(join(world, `${thing}-record`)));
    for (const name of readdirSync(world)) rmSync(join(world, name));
    if (unrecorded.length > 0) throw new Error(`${unrecorded.join()} has no record`);
  }

  it("die at every point, and end well where each process finishes what a dead one began", async () => {
    const operator = maker("nothing");
    const { points, diedAt, failures } = await liveWithEachDeath("maker", operator, live, async () => operator);
    expect(points).toHaveLength(4 * THINGS.length);
    expect([...diedAt].sort()).toEqual([...points].sort());
    expect(failures).toEqual([]);
  });

  it("need not come by what only the quicker of two writes", async () => {
    const operator = maker("nothing", "first");
    const { points, diedAt, failures } = await liveWithEachDeath("maker", operator, live, async () => operator);
    const raced = [...points, ...diedAt].filter((passage) => passage.startsWith("create-volume/member/"));
    expect({ raced, failures }).toEqual({ raced: [], failures: [] });
  });

  it("name the one death that shows a bug, and the life that it was found in", async () => {
    const operator = maker("c");
    const { failures } = await liveWithEachDeath("maker", operator, live, async () => operator);
    expect(failures).toEqual([
      expect.stringMatching(
        /^(make\/c\/after|record\/c\/before), alone: Error: c has no record\n {2}found in a life with 8 deaths \(.*\) failed: Error: c has no record$/,
      ),
    ]);
  });
});
