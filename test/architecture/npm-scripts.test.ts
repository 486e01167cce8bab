import { execFileSync } from "node:child_process";
import { copyFileSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "@jest/globals";

const PACKAGE = { name: "attacked", version: "1.0.0", scripts: { postinstall: "echo > script-was-run" } };

interface Lock {
  readonly packages: Readonly<Record<string, { readonly integrity?: string; readonly hasInstallScript?: boolean }>>;
}

describe("npm packages", () => {
  let directory: string;
  beforeEach(() => {
    directory = mkdtempSync(join(tmpdir(), "tidemark-npm-"));
    writeFileSync(join(directory, "package.json"), JSON.stringify(PACKAGE));
  });
  afterEach(() => rmSync(directory, { recursive: true, force: true }));

  const install = (): boolean => {
    execFileSync("npm", ["install", "--no-save", "--offline", "--loglevel=error"], { cwd: directory, stdio: "pipe" });
    return existsSync(join(directory, "script-was-run"));
  };

  it("run no scripts when they are installed with the settings of this repository", () => {
    copyFileSync(".npmrc", join(directory, ".npmrc"));
    expect(install()).toBe(false);
  });

  it("would run them with npm's own settings", () => {
    writeFileSync(join(directory, ".npmrc"), "ignore-scripts=false\n");
    expect(install()).toBe(true);
  });

  it("have a checksum each in the lock, and those with scripts are known", () => {
    const { packages } = JSON.parse(readFileSync("package-lock.json", "utf8")) as Lock;
    const { allowScripts } = JSON.parse(readFileSync("package.json", "utf8")) as { allowScripts: object };
    const installed = Object.entries(packages).filter(([path]) => path !== "");
    expect(installed.filter(([, { integrity = "" }]) => !integrity.startsWith("sha512-"))).toEqual([]);
    const nameOf = (path: string): string => path.slice(path.lastIndexOf("node_modules/") + "node_modules/".length);
    const withScripts = installed.filter(([, { hasInstallScript }]) => hasInstallScript === true);
    expect(new Set(withScripts.map(([path]) => nameOf(path)))).toEqual(new Set(Object.keys(allowScripts)));
  });
});
