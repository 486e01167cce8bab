// Where the agent's directories lie, on real files: a symbolic link that points elsewhere stands for a disk that is mounted or is not.
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "@jest/globals";
import { pino } from "pino";
import { checkPlaces, recordPlaces } from "../../../src/agent/own-places.ts";
import { directEffects } from "../../../src/platform/process/effects/effects.ts";
import { createFilePort } from "../../../src/platform/process/effects/file-port.ts";
import { eventually } from "../../harness/wait-for.ts";

const NAMES = ["state", "members"];

describe("the directories of an agent", () => {
  let directory: string;
  let said: string[];
  const at = (...names: string[]): string => join(directory, ...names);
  const lieOn = (disk: string): void => {
    for (const name of NAMES) {
      mkdirSync(at(disk, name), { recursive: true });
      rmSync(at(name), { force: true });
      symlinkSync(at(disk, name), at(name));
    }
  };
  const config = (socketDirectory = at()) => ({
    stateDirectory: at("state"),
    memberDirectory: at("members"),
    csiSocket: join(socketDirectory, "csi.sock"),
  });
  const start = (socketDirectory?: string) => {
    checkPlaces(config(socketDirectory));
    const log = pino({ level: "warn" }, { write: (line: string) => said.push(line) });
    return recordPlaces(config(socketDirectory), createFilePort(directEffects), log);
  };
  const recorded = (): string[] =>
    existsSync(at("places.json"))
      ? Object.keys(JSON.parse(readFileSync(at("places.json"), "utf8")) as Record<string, string>)
      : [];

  beforeEach(() => {
    directory = mkdtempSync(join(tmpdir(), "own-places-"));
    said = [];
    lieOn("old-disk");
  });
  afterEach(() => rmSync(directory, { recursive: true }));

  it("may both be moved before anything was in them: the agent began before their disk was mounted", async () => {
    await start();
    mkdirSync(at("state", "volumes"));
    writeFileSync(at("state", "of-a-volume.lock"), "");
    await start();
    lieOn("new-disk");
    await start();
    expect(recorded()).toEqual([]);
  });

  it("may be moved where that of members was always empty, and all else was copied", async () => {
    const files = await start();
    await files.writeWhole("agent-state/write-record", at("state", "volumes", "fs-a.json"), "{}");
    await eventually("its place to be recorded", () => recorded().length > 0);
    lieOn("new-disk");
    writeFileSync(at("state", "fs-a.json"), "{}");
    await start();
    expect(recorded()).toEqual([at("state")]);
  });

  it.each([
    ["a record", "state", "fs-a.json"],
    ["a member", "members", "m0.img"],
  ])("keep it from starting once %s was made and the directory lies elsewhere, empty", async (_what, name, file) => {
    const files = await start();
    await files.createNew("stage/create-member", at(name, file), 0o600);
    await eventually("its place to be recorded", () => recorded().length > 0);
    lieOn("new-disk");
    expect(() => checkPlaces(config())).toThrow(`Mount the disk of ${at(name)} and restart the agent`);
    lieOn("old-disk");
    await start();
    expect(recorded()).toEqual([at(name)]);
  });

  it("may be moved again once the last file in them is gone", async () => {
    const files = await start();
    await files.createNew("stage/create-member", at("members", "m0.img"), 0o600);
    await eventually("its place to be recorded", () => recorded().length > 0);
    await files.remove("remove/member", at("members", "m0.img"));
    await eventually("its place to be forgotten", () => recorded().length === 0);
    lieOn("new-disk");
    await start();
  });

  it("are not forgotten, nor recorded elsewhere, where their disk goes while the agent runs", async () => {
    const files = await start();
    await files.createNew("stage/create-member", at("members", "m0.img"), 0o600);
    await eventually("its place to be recorded", () => recorded().length > 0);
    lieOn("new-disk");
    const before = readFileSync(at("places.json"), "utf8");
    await files.remove("remove/member", at("members", "m0.img"));
    await files.writeWhole("agent-state/write-record", at("state", "fs-a.json"), "{}");
    await eventually("the other place to be recorded", () => recorded().length === 2);
    expect(readFileSync(at("places.json"), "utf8")).toContain(before.trim().split("\n")[1] ?? "");
  });

  it("are used where their place cannot be recorded, and it says so", async () => {
    writeFileSync(at("no-directory"), "");
    const files = await start(at("no-directory"));
    await files.createNew("stage/create-member", at("members", "m0.img"), 0o600);
    await eventually("it to be said", () => said.length > 0);
    expect(said[0]).toContain("Free or repair the disk of this file");
    await start(at("no-directory"));
  });
});
