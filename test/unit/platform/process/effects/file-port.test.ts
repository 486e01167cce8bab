import { spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "@jest/globals";
import {
  createFaultEffects,
  directEffects,
  parsePlantedFaults,
} from "../../../../../src/platform/process/effects/effects.ts";
import { createFilePort } from "../../../../../src/platform/process/effects/file-port.ts";

const FAULT_EFFECTS = new URL("../../../../../src/platform/process/effects/effects.ts", import.meta.url).href;

let directory: string;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "tidemark-file-port-"));
});
afterEach(() => rmSync(directory, { recursive: true }));

describe("the file port", () => {
  const files = createFilePort(directEffects);

  it("replaces a file as a whole, with its mode, and leaves nothing beside it", async () => {
    const path = join(directory, "record.json");
    await files.writeWhole("record/write", path, "old", 0o640);
    await files.writeWhole("record/write", path, "new", 0o600);
    expect(readFileSync(path, "utf8")).toBe("new");
    expect(statSync(path).mode & 0o777).toBe(0o600);
    expect(readdirSync(directory)).toEqual(["record.json"]);
  });

  it("finishes over the half-written remains of a crash", async () => {
    const path = join(directory, "record.json");
    writeFileSync(`${path}.new`, "half");
    await files.writeWhole("record/write", path, "whole");
    expect(readFileSync(path, "utf8")).toBe("whole");
  });

  it("makes a directory again that somebody has removed, for its owner alone", async () => {
    const volumes = join(directory, "state", "volumes");
    await files.writeWhole("record/write", join(volumes, "record.json"), "whole");
    expect(readFileSync(join(volumes, "record.json"), "utf8")).toBe("whole");
    expect(statSync(volumes).mode & 0o777).toBe(0o700);
  });

  it("never creates over a file that is there", async () => {
    const path = join(directory, "member.img");
    await files.createNew("stage/create-member", path, 0o600);
    await expect(files.createNew("stage/create-member", path, 0o600)).rejects.toMatchObject({ code: "EEXIST" });
  });

  it("grows a file by a hole", async () => {
    const path = join(directory, "member.img");
    await files.createNew("stage/create-member", path, 0o600);
    await files.truncate("extend/grow-file", path, 1 << 30);
    expect(statSync(path).size).toBe(1 << 30);
    expect(statSync(path).blocks).toBe(0);
  });
});

describe("a planted fault", () => {
  it.each(["extend", "extend/grow-file", "extend/grow-file/during", "a/b/before#x", "a/b/after,", ""])(
    "%p is refused",
    (text) => {
      expect(() => parsePlantedFaults(text)).toThrow("is not operation/step/before");
    },
  );

  it("is read with its passage", () => {
    expect(parsePlantedFaults("extend/grow-file/after#2,shrink/balance/before")).toEqual([
      { point: "extend/grow-file", moment: "after", passage: 2 },
      { point: "shrink/balance", moment: "before", passage: 1 },
    ]);
  });

  it("of several ends the process at the one that is reached first, in its own passage", () => {
    const log = join(directory, "log");
    const program = `
      import { createFaultEffects, parsePlantedFaults } from ${JSON.stringify(FAULT_EFFECTS)};
      const effects = createFaultEffects(parsePlantedFaults("a/never/before,a/second/after#2,a/third/before"), process.argv[1]);
      for (const step of ["a/first", "a/second", "a/second", "a/third"]) await effects.run(step, async () => {});`;
    const { signal } = spawnSync(process.execPath, ["--import", "tsx", "--input-type=module", "--eval", program, log]);
    expect(signal).toBe("SIGKILL");
    expect(readFileSync(log, "utf8").trimEnd().split("\n").slice(-2)).toEqual(["a/second/before", "a/second/after"]);
    expect(readFileSync(log, "utf8")).not.toContain("a/third");
  });

  it("logs every point before and after it is passed", async () => {
    const log = join(directory, "log");
    const effects = createFaultEffects([], log);
    await effects.run("extend/grow-file", async () =>
      expect(readFileSync(log, "utf8")).toBe("extend/grow-file/before\n"),
    );
    expect(readFileSync(log, "utf8")).toBe("extend/grow-file/before\nextend/grow-file/after\n");
  });
});
