// A token of which lvmd knows nothing may be of a reduction that an lvmd before it has begun, whose state directory is lost: what that one
// has left running is waited for. With real processes; others on this machine may be at such work as well.
import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "@jest/globals";
import { Refusal } from "../../../../../src/contracts/csi/refusal.ts";
import { LvmError } from "../../../../../src/lvmd/lvm/lvm-error.ts";
import { cancelReduce } from "../../../../../src/lvmd/volumes/reduce/reduce-volume.ts";
import { loadReduceTokens, type ReduceTokens } from "../../../../../src/lvmd/volumes/reduce/reductions.ts";
import { systemClock } from "../../../../../src/platform/process/clock.ts";
import { isBegunHere, runningCommands } from "../../../../../src/platform/process/effects/command-port.ts";
import { directEffects } from "../../../../../src/platform/process/effects/effects.ts";
import { createFilePort } from "../../../../../src/platform/process/effects/file-port.ts";
import { waitFor } from "../../../../harness/wait-for.ts";
import { hostWithReport } from "../../host-with-report.ts";
import { deviceClass, GIB, groupOf } from "../../lvm-facts.ts";

const CLEARING = ["/usr/sbin/blkdiscard", "--force", "--zeroout", "--offset", "0", "--length", "4096", "/dev/dm-99"];
const REDUCING = [
  "/sbin/lvm",
  "lvreduce",
  "--config",
  "backup { backup=1 archive=0 }",
  "-f",
  "-L",
  "4194304b",
  "g/some",
];
const MARK = "of-this-test";
const HOST = hostWithReport(deviceClass(), [groupOf([GIB])]);
/** Ends by itself only after no test can run any more. */
const WAITING = "read -r -t 900 <>$FIFO";

describe("a token of which nothing is known", () => {
  let directory: string;
  let environment: NodeJS.ProcessEnv;
  let tokens: ReduceTokens;
  let pids: number[];
  let children: ChildProcess[];

  beforeEach(() => {
    directory = mkdtempSync(join(tmpdir(), "cancel-reduce-"));
    environment = { ...process.env, FIFO: join(directory, "fifo") };
    execFileSync("mkfifo", [environment["FIFO"] ?? ""]);
    tokens = loadReduceTokens(directory, createFilePort(directEffects), systemClock);
    [pids, children] = [[], []];
  });
  afterEach(() => {
    for (const pid of pids) end(pid);
    for (const { pid } of children) if (pid !== undefined) process.kill(-pid);
    rmSync(directory, { recursive: true, force: true });
  });

  /** As its callers do, it asks again where what one of the machine's other processes does cannot be read just now. */
  const cancel = (token: string): Promise<Awaited<ReturnType<typeof cancelReduce>> | Refusal> =>
    waitFor("all processes to be readable", async () =>
      cancelReduce(HOST, tokens, token).catch((error: unknown) => {
        if (error instanceof LvmError && error.code === "Hung") return undefined;
        if (error instanceof Refusal) return error;
        throw error;
      }),
    );

  /** Its parent has ended, as one that was killed. */
  function leaveRunning([program = "", ...words]: readonly string[]): number {
    const script = `(exec -a "$0" /bin/bash -c '${WAITING}' "$@") </dev/null >/dev/null 2>&1 & echo $!`;
    const args = ["-c", script, program, ...words];
    const pid = Number(execFileSync("/bin/bash", args, { encoding: "utf8", env: environment }));
    pids.push(pid);
    return pid;
  }

  function end(pid: number): void {
    pids = pids.filter((other) => other !== pid);
    process.kill(pid);
  }

  /** What others left behind on this machine ends as well. */
  async function burns(token: string): Promise<void> {
    await waitFor(`${token} to be burnt`, async () => {
      const outcome = await cancel(token);
      if (outcome instanceof Refusal) throw new Error(outcome.message);
      expect(outcome).toEqual({ reducedTo: undefined });
      expect(tokens.get(token)?.end).toEqual({ state: "Burnt" });
      return true;
    });
  }

  /** Of this process, in a group of its own. */
  async function beginHere(program: string, args: readonly string[], shown: string): Promise<void> {
    const child = spawn(program, args, { env: environment, stdio: "ignore", detached: true });
    children.push(child);
    await waitFor(`${shown} to run`, async () => {
      for await (const { pid, words = [] } of runningCommands())
        if (words.includes(shown) && words.includes(MARK) && isBegunHere(pid)) return true;
      return undefined;
    });
  }

  it.each([
    ["clears what is to be cut off", CLEARING],
    ["makes a volume smaller", REDUCING],
  ])("is not burnt while something left behind %s", async (_what, command) => {
    const pid = leaveRunning(command);
    const refusal = await cancel("unknown");
    expect(refusal).toBeInstanceOf(Refusal);
    expect(refusal).toMatchObject({ code: "UNAVAILABLE", message: expect.stringContaining("token unknown") });
    await waitFor("this one to be named", async () => {
      const outcome = await cancel("unknown");
      return outcome instanceof Refusal && outcome.message.includes(`(process ${pid})`) ? true : undefined;
    });
    expect(tokens.get("unknown")).toBeUndefined();
    end(pid);
    await burns("unknown");
  });

  it.each([
    ["by itself", ["-c", `exec -a "$0" /bin/bash -c '${WAITING}' "$@"`]],
    ["through a program before it", ["-c", `(exec -a "$0" /bin/bash -c '${WAITING}' "$@"); true`]],
  ])("is burnt while this lvmd clears for another one, %s", async (_how, before) => {
    await beginHere("/bin/bash", [...before, ...CLEARING, MARK], CLEARING[0] ?? "");
    await burns("unknown");
  });

  it.each([
    ["only speaks of such a command", ["man", "lvreduce"]],
    ["makes a volume smaller by hand", ["sudo", "lvreduce", "-L", "5G", "other/x"]],
    ["discards a whole disk by hand", ["/usr/sbin/blkdiscard", "/dev/sdz"]],
  ])("is burnt while somebody %s", async (_what, command) => {
    leaveRunning(command);
    await burns("unknown");
  });

  it("is told its end once that is known, whatever still runs", async () => {
    await burns("known");
    leaveRunning(CLEARING);
    expect(await cancel("known")).toEqual({ reducedTo: undefined });
  });
});
