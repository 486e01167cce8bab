// The lock per filesystem, between processes and after a violent death.
import { type ChildProcess, spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "@jest/globals";
import { createFilesystemLocks, type FilesystemLocks } from "../../../src/agent/apply/filesystem-lock.ts";
import {
  CommandError,
  type CommandPort,
  createCommandPort,
} from "../../../src/platform/process/effects/command-port.ts";
import { directEffects } from "../../../src/platform/process/effects/effects.ts";
import { createFilePort } from "../../../src/platform/process/effects/file-port.ts";
import { waitFor } from "./agent-under-test.ts";

const FSID = "74696d61-0000-4000-8000-000000000001";

describe("the lock of a filesystem", () => {
  let directory: string;
  let other: ChildProcess | undefined;
  const newLocks = (): FilesystemLocks =>
    createFilesystemLocks(directory, createFilePort(directEffects), createCommandPort(directEffects));
  /** Another process that holds the lock until it is killed. */
  const lockElsewhere = async (): Promise<void> => {
    other = spawn("/usr/bin/flock", [join(directory, `${FSID}.lock`), "/usr/bin/sleep", "infinity"], {
      detached: true,
    });
    await waitFor("the other process to lock", async () => {
      const looking = newLocks();
      if (!(await looking.acquire(FSID))) return true;
      await looking.release(FSID);
      return false;
    });
  };
  const killOther = (): void => {
    if (other?.pid !== undefined) process.kill(-other.pid, "SIGKILL");
    other = undefined;
  };

  beforeEach(() => {
    directory = mkdtempSync(join(tmpdir(), "tidemark-lock-"));
  });
  afterEach(() => {
    killOther();
    rmSync(directory, { recursive: true });
  });

  it("is held by one, and may be taken again by the same", async () => {
    const [first, second] = [newLocks(), newLocks()];
    expect(await first.acquire(FSID)).toBe(true);
    expect(await first.acquire(FSID)).toBe(true);
    expect(await second.acquire(FSID)).toBe(false);
    await first.release(FSID);
    expect(await second.acquire(FSID)).toBe(true);
    await second.release(FSID);
  });

  it("is held by at most one of many who try at once", async () => {
    const contenders = Array.from({ length: 8 }, newLocks);
    const held = await Promise.all(contenders.map((locks) => locks.acquire(FSID)));
    expect(held.filter(Boolean)).toHaveLength(1);
    await Promise.all(contenders.map((locks) => locks.release(FSID)));
  });

  it("is free as soon as its holder was killed", async () => {
    await lockElsewhere();
    killOther();
    const locks = newLocks();
    await waitFor("the lock", () => locks.acquire(FSID));
    await locks.release(FSID);
  });

  it("is free again after an attempt that locked it and was too late to say so", async () => {
    const commands = createCommandPort(directEffects);
    const late: CommandPort = {
      ...commands,
      run: async (point, path, args, options) => {
        expect((await commands.run(point, path, args, options)).exitCode).toBe(0);
        throw new CommandError("TimedOut", path, "no end after 5000 ms");
      },
    };
    const busy = createFilesystemLocks(directory, createFilePort(directEffects), late);
    await expect(busy.acquire(FSID)).rejects.toThrow("no end after 5000 ms");
    const locks = newLocks();
    expect(await locks.acquire(FSID)).toBe(true);
    await locks.release(FSID);
  });

  it("of one filesystem says nothing about another", async () => {
    await lockElsewhere();
    const locks = newLocks();
    expect(await locks.acquire("74696d61-0000-4000-8000-000000000002")).toBe(true);
    await locks.release("74696d61-0000-4000-8000-000000000002");
  });
});
