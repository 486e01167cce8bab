import { execFileSync, spawn } from "node:child_process";
import {
  closeSync,
  constants,
  mkdirSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readlinkSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { readFile, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, describe, expect, it } from "@jest/globals";
import { runningCommands } from "../../../../../src/platform/process/effects/command-port.ts";
import { waitFor } from "../../../../harness/wait-for.ts";

function isLinkTo(path: string, place: string): boolean {
  try {
    return readlinkSync(path) === place;
  } catch {
    return false; // closed meanwhile
  }
}

/** Of libuv, which reads files by them. */
const POOL_THREADS = Number(process.env["UV_THREADPOOL_SIZE"] ?? 4);

describe("the commands that run on this machine", () => {
  const child = spawn("sleep", ["4711"], { stdio: "ignore" });
  let release = (): void => undefined;
  afterEach(() => {
    child.kill();
    release();
  });
  const pids = async (programs?: readonly string[]): Promise<string[]> => {
    const found: string[] = [];
    for await (const { pid, words = [] } of runningCommands(programs)) if (words.includes("4711")) found.push(pid);
    return found;
  };

  it("are found by the name of their program, and all of them without one; meanwhile the process does other things", async () => {
    await waitFor("it to run", async () => ((await pids()).length > 0 ? true : undefined));
    let turns = 0;
    const timer = setInterval(() => {
      turns += 1;
    }, 0);
    const [named, others] = [await pids(["/usr/bin/sleep", "btrfs"]), await pids(["btrfs"])];
    clearInterval(timer);
    expect(named).toEqual([String(child.pid)]);
    expect(others).toEqual([]);
    expect(turns).toBeGreaterThan(0);
  });

  it("cost one thread each where they cannot be read, however often they are asked for", async () => {
    const directory = mkdtempSync(join(tmpdir(), "running-commands-"));
    mkdirSync(join(directory, "12"));
    writeFileSync(join(directory, "12", "comm"), "btrfs\n");
    // Its opening waits for a writer, as the kernel's file does for the process' memory.
    const unreadable = join(directory, "12", "cmdline");
    execFileSync("mkfifo", [unreadable]);
    release = () => {
      const pipe = openSync(unreadable, constants.O_RDWR | constants.O_NONBLOCK);
      setTimeout(() => closeSync(pipe), 100);
    };
    const ask = async (): Promise<unknown[]> => {
      const found: unknown[] = [];
      for await (const command of runningCommands(["btrfs"], directory)) found.push(command);
      return found;
    };
    const unknown = [{ pid: "12", words: undefined }];
    expect(await Promise.all([ask(), ask()])).toEqual([unknown, unknown]);
    // More questions than the pool has threads, and then one of another kind.
    const startedMs = performance.now();
    for (let asked = 0; asked < 5; asked += 1) expect(await ask()).toEqual(unknown);
    // A read of its own for each would take a second each.
    expect(performance.now() - startedMs).toBeLessThan(5000);
    expect(await readFile(join(directory, "12", "comm"), "utf8")).toBe("btrfs\n");
    await writeFile(unreadable, "btrfs\0filesystem");
    await waitFor("the pending read to end", async () => {
      const asking = ask();
      await writeFile(unreadable, "btrfs\0filesystem").catch(() => undefined);
      const [first] = (await asking) as { words?: string[] }[];
      return first?.words?.[1] === "filesystem" ? true : undefined;
    });
    release = () => rmSync(directory, { recursive: true });
  });

  it("are waited for where no read gets on, because the threads that read are busy", async () => {
    const directory = mkdtempSync(join(tmpdir(), "running-commands-"));
    for (const pid of ["11", "12"]) {
      mkdirSync(join(directory, pid));
      writeFileSync(join(directory, pid, "cmdline"), `lvreduce\0${pid}`);
    }
    const commands = runningCommands(undefined, directory);
    const first = await commands.next();
    const busy = Array.from({ length: POOL_THREADS }, (_, index) => join(directory, `busy-${index}`));
    execFileSync("mkfifo", busy);
    const held = busy.map((path) => readFile(path)); // each waits for a writer
    const releaseBusy = (): void => {
      for (const path of busy) closeSync(openSync(path, constants.O_RDWR | constants.O_NONBLOCK));
    };
    const releasing = setTimeout(releaseBusy, 2000);
    release = () => clearTimeout(releasing);
    const second = await commands.next();
    await Promise.all(held);
    const words = [first, second].map(({ value }) => value?.words?.[1]);
    expect(words.sort()).toEqual(["11", "12"]);
    release = () => rmSync(directory, { recursive: true });
  });

  it("are none of a process that ends while its command line cannot be read", async () => {
    const directory = mkdtempSync(join(tmpdir(), "running-commands-"));
    mkdirSync(join(directory, "12"));
    const unreadable = join(directory, "12", "cmdline");
    execFileSync("mkfifo", [unreadable]);
    const pipe = openSync(unreadable, constants.O_RDWR | constants.O_NONBLOCK); // a reader waits until it is closed
    release = () => closeSync(pipe);
    const commands = runningCommands(undefined, directory);
    const first = commands.next();
    await waitFor("the read to be held up", async () => {
      const open = readdirSync("/proc/self/fd").filter((fd) => isLinkTo(join("/proc/self/fd", fd), unreadable));
      return open.length === 2 ? true : undefined;
    });
    rmSync(directory, { recursive: true });
    expect((await first).value).toEqual({ pid: "12", words: [] });
  });
});
