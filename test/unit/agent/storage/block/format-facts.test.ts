// What is asked before a mkfs must never say "nothing there" when it only could not look: an empty answer is what allows one.
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "@jest/globals";
import * as z from "zod";
import { recordWithLayout } from "../../../../../src/agent/gather/layout-record.ts";
import { readRecord } from "../../../../../src/agent/storage/block/member-record.ts";
import { probe } from "../../../../../src/agent/storage/block/probe-device.ts";
import { createTools } from "../../../../../src/agent/storage/tools.ts";
import { volumeOf } from "../../../../../src/agent/volumes/volume-state.ts";
import { createCommandPort } from "../../../../../src/platform/process/effects/command-port.ts";
import { directEffects } from "../../../../../src/platform/process/effects/effects.ts";
import { buildLayout } from "../../../../builders/filesystem-layout.ts";

const volume = volumeOf(recordWithLayout(buildLayout(), undefined));
const tools = createTools(createCommandPort(directEffects));
const schema = z.object({ state: z.string() });

describe("what is asked before a mkfs", () => {
  let directory: string;
  let path: string;

  beforeEach(() => {
    directory = mkdtempSync(join(tmpdir(), "tidemark-format-facts-"));
    path = join(directory, "asked");
  });
  afterEach(() => rmSync(directory, { recursive: true }));

  it("says that there is no record where there is none", () => {
    expect(readRecord(path, schema, "the member")).toBeUndefined();
  });

  it.each<readonly [string, string, () => void]>([
    ["leads in a circle", "ELOOP", () => symlinkSync(path, path)],
    ["is a directory", "EISDIR", () => mkdirSync(path)],
    ["cannot be reached, since a file is where its directory was", "ENOTDIR", () => replaceDirectory()],
  ])("does not take a record that %s for none", (_what, code, make) => {
    make();
    expect(() => readRecord(path, schema, "the member")).toThrow(expect.objectContaining({ code }));
  });

  it.each(["", "{ torn", "null", '{ "state": 1 }'])("does not take a record that says %j for none", (text) => {
    writeFileSync(path, text);
    expect(() => readRecord(path, schema, "the member")).toThrow(expect.objectContaining({ code: "AlreadyFormatted" }));
  });

  it("finds no signature on what has none", async () => {
    writeFileSync(path, Buffer.alloc(1 << 20));
    expect(await probe(tools, volume, path)).toEqual([]);
  });

  it.each<readonly [string, () => void]>([
    ["is not there", () => undefined],
    ["leads in a circle", () => symlinkSync(path, path)],
    ["is a directory", () => mkdirSync(path)],
  ])("does not take a device that %s for one without signatures", async (_what, make) => {
    make();
    await expect(probe(tools, volume, path)).rejects.toMatchObject({
      code: "CommandFailed",
      message: expect.stringContaining("looking for signatures"),
    });
  });

  it("does not take a device whose reader died on its way for one without signatures", async () => {
    const dying = {
      query: async () => ({ commandLine: "wipefs", exitCode: 1, stdout: "", stderr: "Input/output error" }),
    };
    const asked = probe({ ...tools, ...dying }, volume, path);
    await expect(asked).rejects.toMatchObject({ message: expect.stringContaining("Input/output error") });
  });

  function replaceDirectory(): void {
    writeFileSync(path, "");
    path = join(path, "asked");
  }
});
