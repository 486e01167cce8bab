// Cleaning up after runs, with real processes, and real mounts and loop devices where this machine has them.
import { type ChildProcess, spawn } from "node:child_process";
import { chownSync, existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "@jest/globals";
import { loopDevicesUnder, mountsUnder } from "../../../../demo/show/run/mount-table.ts";
import { groupMembers, identityOf, isAlive } from "../../../../demo/show/run/process-table.ts";
import {
  createRunDirectory,
  recordProcess,
  removeRun,
  removeStaleRuns,
} from "../../../../demo/show/run/run-directory.ts";
import { makeFixedVolume } from "../../../../demo/show/script/fixed-volume.ts";
import { MIB } from "../../../../src/contracts/quantities/quantity.ts";
import { createCommandPort } from "../../../../src/platform/process/effects/command-port.ts";
import { directEffects } from "../../../../src/platform/process/effects/effects.ts";
import { describeReal } from "../../../harness/real-parts.ts";
import { eventually } from "../../../harness/wait-for.ts";

const commands = createCommandPort(directEffects);
let base: string;
let children: ChildProcess[] = [];
beforeEach(() => {
  base = mkdtempSync(join(tmpdir(), "tidemark-runs-"));
});
afterEach(() => {
  for (const { pid } of children) if (pid !== undefined) endGroup(pid);
  children = [];
  rmSync(base, { recursive: true });
});

/** The shell and what it has begun. */
function endGroup(pid: number): void {
  try {
    process.kill(-pid, "SIGKILL");
  } catch {
    // All of it has ended.
  }
}

function startSleeper(script = "sleep 1000"): number {
  const child = spawn("/bin/sh", ["-c", script], { detached: true, stdio: "ignore" });
  children.push(child);
  if (child.pid === undefined) throw new Error("sh did not start");
  return child.pid;
}

/** A run directory whose owner is long dead. */
function staleRun(...pids: number[]): string {
  const directory = join(base, "run-stale");
  mkdirSync(directory);
  writeFileSync(join(directory, "processes"), "4194303 1\n");
  for (const pid of pids) recordProcess(directory, pid);
  return directory;
}

describe("a stale run", () => {
  it("is removed at the next start, its processes ended", async () => {
    const pid = startSleeper();
    const directory = staleRun(pid);
    expect(await removeStaleRuns(base, commands)).toEqual([directory]);
    expect(existsSync(directory)).toBe(false);
    await eventually("the process ends", () => identityOf(pid) === undefined);
  });

  it("has the commands ended that its processes have left behind", async () => {
    const pid = startSleeper("sleep 1000 & sleep 1000 & wait");
    const leader = identityOf(pid);
    if (leader === undefined) throw new Error("sh is gone");
    await eventually("its commands run", () => groupMembers(leader).length === 3);
    const members = groupMembers(leader);
    staleRun(pid);
    process.kill(pid, "SIGKILL");
    await eventually("it is dead", () => !isAlive(leader));
    await removeStaleRuns(base, commands);
    await eventually("its commands end", () => !members.some(isAlive));
  });

  it("never costs a stranger that has got the same pid its life", async () => {
    const pid = startSleeper();
    const directory = staleRun();
    writeFileSync(join(directory, "processes"), `4194303 1\n${pid} 1\n`);
    await removeStaleRuns(base, commands);
    expect(identityOf(pid)).toBeDefined();
  });

  it("is left alone while its owner lives", async () => {
    const directory = createRunDirectory(base);
    expect(await removeStaleRuns(base, commands)).toEqual([]);
    expect(existsSync(directory)).toBe(true);
  });

  it("needs no earlier run to be looked for", async () => {
    expect(await removeStaleRuns(join(base, "never-made"), commands)).toEqual([]);
  });
});

const realStorage = process.getuid?.() === 0 && existsSync("/dev/loop-control");
(realStorage ? describe : describe.skip)("a run with real filesystems", () => {
  it("is unmounted, detached and deleted, and a second removal finds nothing to do", async () => {
    const directory = createRunDirectory(base);
    const { path } = await makeFixedVolume(join(directory, "fixed volume"), 256 * MIB, commands);
    expect(mountsUnder(directory)).toEqual([path]);
    expect(loopDevicesUnder(directory)).toHaveLength(1);
    await removeRun(directory, commands);
    expect(mountsUnder(directory)).toEqual([]);
    expect(loopDevicesUnder(directory)).toEqual([]);
    expect(existsSync(directory)).toBe(false);
    await removeRun(directory, commands);
  });
});

describe("the mount table", () => {
  it("lists what is mounted under a directory, the last first, with odd names read", () => {
    const line = (path: string): string => `1 2 0:3 / ${path} rw - btrfs /dev/loop0 rw`;
    const table = ["/run/a", "/run/a/b\\040c", "/run/ab", "/other"].map(line).join("\n");
    expect(mountsUnder("/run/a", table)).toEqual(["/run/a/b c", "/run/a"]);
  });
});

describeReal("a run directory that somebody else has made", ["root"], () => {
  it("is left alone, and so are the processes that it names", async () => {
    const pid = startSleeper();
    const directory = staleRun(pid);
    chownSync(directory, 65534, 65534);
    expect(await removeStaleRuns(base, commands)).toEqual([]);
    expect(existsSync(directory)).toBe(true);
    expect(identityOf(pid)).toBeDefined();
  });

  it("is no base for a run", () => {
    chownSync(base, 65534, 65534);
    expect(() => createRunDirectory(base)).toThrow("belongs to another user");
  });
});
