import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, it } from "@jest/globals";
import { afterProcessLock, withProcessLock } from "../../cluster/process-lock.ts";

let directory: string;
let path: string;
const held = (pid: number): Error => new Error(`process ${pid} holds it`);

beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "tidemark-lock-"));
  path = join(directory, "made-by-it", "lock");
});

afterEach(() => rmSync(directory, { recursive: true }));

describe("a lock of processes", () => {
  it("lets those who wait in one after the other", async () => {
    let inside = 0;
    const seen: number[] = [];
    const enter = async (): Promise<void> => {
      inside += 1;
      seen.push(inside);
      await sleep(20);
      inside -= 1;
    };
    await Promise.all([1, 2, 3].map(() => afterProcessLock(path, enter)));
    expect(seen).toEqual([1, 1, 1]);
  });

  it("names the holder to one who does not wait", async () => {
    await withProcessLock(path, held, async () => {
      await expect(withProcessLock(path, held, async () => undefined)).rejects.toThrow(
        `process ${process.pid} holds it`,
      );
    });
  });

  it("is given back where the work fails", async () => {
    await expect(afterProcessLock(path, () => Promise.reject(new Error("no room")))).rejects.toThrow("no room");
    expect(existsSync(path)).toBe(false);
  });

  it("is taken over from a process that is dead, or from another that has its pid now", async () => {
    await afterProcessLock(path, async () => undefined);
    writeFileSync(path, `${process.pid} 1\n`);
    expect(await afterProcessLock(path, async () => "done")).toBe("done");
  });
});
