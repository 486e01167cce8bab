import { mkdirSync, mkdtempSync, renameSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "@jest/globals";
import { type FollowedSettings, followSettings } from "../../../../src/lvmd/settings/follow-settings.ts";
import { createLogger } from "../../../../src/platform/process/log.ts";
import { waitFor } from "../../../harness/wait-for.ts";

const withClass = (name: string): string => `device-classes: [{ name: ${name}, volume-group: g }]\n`;

describe("settings that are followed", () => {
  let directory: string;
  let settings: FollowedSettings | undefined;

  beforeEach(() => {
    directory = mkdtempSync(join(tmpdir(), "settings-"));
  });

  afterEach(() => {
    settings?.stop();
    rmSync(directory, { recursive: true });
  });

  const follow = (file: string): FollowedSettings => {
    settings = followSettings(file, createLogger("test", "silent"));
    return settings;
  };
  const names = (): string[] | undefined => settings?.now().deviceClasses.map(({ name }) => name);
  const waitForClass = (name: string): Promise<true> =>
    waitFor(`class ${name}`, () => (names()?.[0] === name ? true : undefined), { limitMs: 9000 });

  it("change with their file, also where it is replaced as an editor does", async () => {
    const file = join(directory, "lvmd.yaml");
    writeFileSync(file, withClass("one"));
    follow(file);
    let told = 0;
    settings?.onChange(() => {
      told += 1;
    });
    writeFileSync(file, withClass("two"));
    await waitForClass("two");
    writeFileSync(`${file}.new`, withClass("three"));
    renameSync(`${file}.new`, file);
    await waitForClass("three");
    expect(told).toBe(2);
  });

  it("change where kubelet swaps the directory of a ConfigMap", async () => {
    for (const version of ["1", "2"]) {
      mkdirSync(join(directory, version));
      writeFileSync(join(directory, version, "lvmd.yaml"), withClass(`v${version}`));
    }
    symlinkSync("1", join(directory, "..data"));
    symlinkSync("..data/lvmd.yaml", join(directory, "lvmd.yaml"));
    follow(join(directory, "lvmd.yaml"));
    expect(names()).toEqual(["v1"]);
    symlinkSync("2", join(directory, "..data_tmp"));
    renameSync(join(directory, "..data_tmp"), join(directory, "..data"));
    await waitForClass("v2");
  });

  it("stay as they were where the file cannot be used, and say where and why", async () => {
    const file = join(directory, "lvmd.yaml");
    writeFileSync(file, withClass("one"));
    follow(file);
    writeFileSync(file, `${withClass("two")}unknown: 1\n`);
    const problem = await waitFor("the problem", () => settings?.problem(), { limitMs: 9000 });
    expect(problem).toMatch(/lvmd.yaml:2: "unknown" is not known/);
    expect(names()).toEqual(["one"]);
    rmSync(file);
    await waitFor("the other problem", () => (settings?.problem()?.includes("ENOENT") ? true : undefined), {
      limitMs: 9000,
    });
    expect(names()).toEqual(["one"]);
    writeFileSync(file, withClass("one"));
    await waitFor("no problem", () => (settings?.problem() === undefined ? true : undefined), { limitMs: 15_000 });
  });

  it("are refused at the start where there are none to go on with", () => {
    const file = join(directory, "lvmd.yaml");
    writeFileSync(file, "device-classes: 1\n");
    expect(() => follow(file)).toThrow(/lvmd.yaml:1: device-classes is not a list/);
  });
});
