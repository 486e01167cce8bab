// scripts/setup.sh on a machine that lacks everything: the real script, with a PATH of its own in which apt-get and npm only write down
// what they are called with.
import { execFileSync, spawnSync } from "node:child_process";
import {
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "@jest/globals";

/** Of the machine, as the script needs them. */
const PROGRAMS = ["bash", "cmp", "cp", "dirname", "env"];
const MISSING = "btrfs-progs e2fsprogs";

let directory: string;
const at = (...names: string[]): string => join(directory, ...names);

function writeProgram(name: string, lines: string): void {
  writeFileSync(at("bin", name), `#!/bin/bash\n${lines}\n`);
  chmodSync(at("bin", name), 0o755);
}

beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "tidemark-setup-"));
  for (const name of ["bin", "scripts", "node_modules"]) mkdirSync(at(name));
  cpSync("Makefile", at("Makefile"));
  // Debian's own directories are not looked into: as if nothing was in them.
  const script = readFileSync("scripts/setup.sh", "utf8");
  writeFileSync(at("scripts", "setup.sh"), script.replace('PATH="$PATH:/usr/sbin:/sbin" command', "command"));
  chmodSync(at("scripts", "setup.sh"), 0o755);
  for (const name of ["package-lock.json", join("node_modules", ".tidemark-lock")]) writeFileSync(at(name), "{}");
  for (const name of PROGRAMS) symlinkSync(execFileSync("which", [name], { encoding: "utf8" }).trim(), at("bin", name));
  symlinkSync(process.execPath, at("bin", "node"));
  writeProgram("id", "echo 0");
  for (const name of ["xfsprogs:mkfs.xfs", "util-linux:losetup", "mount:mount"])
    writeProgram(name.split(":")[1] ?? "", "exit 0");
  writeProgram("apt-get", `echo "$@" >> ${at("apt-calls")}`);
});
afterEach(() => rmSync(directory, { recursive: true, force: true }));

const aptCalls = (): string => (existsSync(at("apt-calls")) ? readFileSync(at("apt-calls"), "utf8") : "");
const environment = (more: Record<string, string> = {}) => ({ PATH: at("bin"), HOME: directory, ...more });

function setUp(args: readonly string[] = [], more: Record<string, string> = {}) {
  const options = { env: environment(more), encoding: "utf8", input: "y\n" } as const;
  return spawnSync(at("scripts", "setup.sh"), args, options);
}

describe("the setup of a fresh machine", () => {
  it.each([
    ["", []],
    [" and with the demo's --json", ["--json"]],
  ])("stops without a terminal%s, says which packages and what to do, and installs none", (_, args) => {
    const { status, stderr, stdout } = setUp(["--for", "demo", ...args]);
    expect(status).toBe(3);
    expect(stderr).toContain(`there is no terminal to ask on: ${MISSING}.`);
    expect(stderr).toContain("make demo ARGS=--yes");
    expect(stderr).toContain(`apt-get install ${MISSING}`);
    expect([stdout, aptCalls()]).toEqual(["", ""]);
  });

  it.each([
    ["--yes", ["--yes"], {}],
    ["CI=true", [], { CI: "true" }],
  ])("installs them without a terminal with %s", (_, args, more: Record<string, string>) => {
    expect(setUp(args, more).status).toBe(0);
    expect(aptCalls()).toMatch(new RegExp(`install .*--no-install-recommends ${MISSING}\\n$`));
  });

  it("does not take CI=false for a yes", () => {
    expect(setUp([], { CI: "false" }).status).toBe(3);
    expect(aptCalls()).toBe("");
  });

  it("goes on without a terminal where nothing is missing", () => {
    for (const name of ["mkfs.btrfs", "mkfs.ext4"]) writeProgram(name, "exit 0");
    expect(setUp().status).toBe(0);
  });

  it.each([
    ["y", true],
    ["", true],
    ["n", false],
  ])("asks on a terminal, and takes %j as it is", (answer, installs) => {
    // script(1) gives it a terminal of its own.
    const { status, stdout } = spawnSync("/usr/bin/script", ["-qec", at("scripts", "setup.sh"), "/dev/null"], {
      env: environment({ SHELL: "/bin/bash" }),
      encoding: "utf8",
      input: `${answer}\n`,
    });
    expect(stdout).toContain(`Install ${MISSING} with apt-get? [Y/n]`);
    expect([status, aptCalls() !== ""]).toEqual([0, installs]);
  });
});

describe("the Makefile", () => {
  it.each([
    ["demo", ["--for demo"]],
    ["test", ["--for test"]],
    ["check test", ["--for check --for test"]],
    ["soak", ["--for soak"]],
    ["demo ARGS='--json --yes'", ["--for demo --yes"]],
  ])("sets up once, for all goals: make %s", (goals, calls) => {
    // A make around this one hands its own variables on.
    const env = { PATH: process.env["PATH"] };
    const command = `make --no-print-directory -n ${goals}`;
    const steps = execFileSync("bash", ["-c", command], { cwd: directory, env, encoding: "utf8" });
    expect(steps.match(/(?<=scripts\/setup\.sh ).*?(?= *$)/gm)).toEqual(calls);
  });
});
