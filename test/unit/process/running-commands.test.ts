import { spawn } from "node:child_process";
import { afterEach, describe, expect, it } from "@jest/globals";
import { runningCommands } from "../../../src/process/running-commands.ts";
import { waitFor } from "../../harness/wait-for.ts";

describe("the commands that run on this machine", () => {
  const child = spawn("sleep", ["4711"], { stdio: "ignore" });
  afterEach(() => void child.kill());
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
});
