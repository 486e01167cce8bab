import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "@jest/globals";
import { directEffects } from "../../../src/process/effects.ts";
import { createFaultEffects, parsePlantedFault } from "../../../src/process/fault-effects.ts";
import { createFilePort } from "../../../src/process/file-port.ts";

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
  it.each(["extend", "extend/grow-file", "extend/grow-file/during", "a/b/before#x"])("%p is refused", (text) => {
    expect(() => parsePlantedFault(text)).toThrow("is not operation/step/before");
  });

  it("is read with its passage", () => {
    expect(parsePlantedFault("extend/grow-file/after#2")).toEqual({
      point: "extend/grow-file",
      moment: "after",
      passage: 2,
    });
  });

  it("logs every point before and after it is passed", async () => {
    const log = join(directory, "log");
    const effects = createFaultEffects(undefined, log);
    await effects.run("extend/grow-file", async () =>
      expect(readFileSync(log, "utf8")).toBe("extend/grow-file/before\n"),
    );
    expect(readFileSync(log, "utf8")).toBe("extend/grow-file/before\nextend/grow-file/after\n");
  });
});
