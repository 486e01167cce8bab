// What an image takes while another process builds again and again: all files of one build, never some of each.
import { type ChildProcess, spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "@jest/globals";
import { readBundle } from "../../../scripts/image/bundle-files.ts";
import { waitFor } from "../../harness/wait-for.ts";

const NAMES = Array.from({ length: 12 }, (_, index) => `chunk-${index}.mjs`);
const BUILDS = 40;
const BUILDER = `
import { mkdirSync, writeFileSync } from "node:fs";
import { setTimeout as pause } from "node:timers/promises";
import { replaceDirectory } from ${JSON.stringify(resolve("scripts/replace-directory.mjs"))};
for (let build = 1; ; build += 1) {
  mkdirSync("next");
  for (const name of ${JSON.stringify(NAMES)}) writeFileSync("next/" + name, String(build));
  replaceDirectory("dist", "next");
  await pause(1);
}
`;

describe("the bundle of an image", () => {
  let directory: string;
  let builder: ChildProcess | undefined;
  const dist = (): string => join(directory, "dist");

  beforeEach(() => {
    directory = mkdtempSync(join(tmpdir(), "tidemark-bundle-"));
  });
  afterEach(async () => {
    if (builder !== undefined) {
      const ended = new Promise((done) => builder?.once("close", done));
      builder.kill("SIGKILL");
      await ended;
      builder = undefined;
    }
    rmSync(directory, { recursive: true });
  });

  it("is of one build each time, however often another process replaces it", async () => {
    const args = ["--input-type=module", "--eval", BUILDER];
    builder = spawn(process.execPath, args, {
      cwd: directory,
      env: { ...process.env, NODE_OPTIONS: "" },
      stdio: ["ignore", "ignore", "inherit"],
    });
    const read: ReturnType<typeof readBundle>[] = [];
    await waitFor(
      `${BUILDS} builds to be read`,
      () => {
        const files = readOnce(dist());
        if (files !== undefined) read.push(files);
        const builds = new Set(read.map(([file]) => file?.text));
        return builds.size >= BUILDS ? true : undefined;
      },
      { intervalMs: 0 },
    );
    const ofOneBuild = (files: readonly { name: string; text: string }[]): boolean =>
      files.length === NAMES.length && new Set(files.map(({ text }) => text)).size === 1;
    expect(read.filter((files) => !ofOneBuild(files))).toEqual([]);
  });

  it("is its modules without their source maps, and without the demo", () => {
    mkdirSync(join(dist(), "demo"), { recursive: true });
    writeFileSync(join(dist(), "demo", "demo.mjs"), "demo");
    for (const name of ["tidemark.mjs", "tidemark.mjs.map"]) writeFileSync(join(dist(), name), name);
    expect(readBundle(dist())).toEqual([{ name: "tidemark.mjs", text: "tidemark.mjs" }]);
  });

  it("is refused where there is none", () => {
    expect(() => readBundle(dist())).toThrow("ENOENT");
  });
});

/** Undefined: it is not there yet, or was replaced each time that it was read. */
function readOnce(path: string): ReturnType<typeof readBundle> | undefined {
  try {
    return readBundle(path);
  } catch {
    return undefined;
  }
}
