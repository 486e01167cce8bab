// A btrfs command that outlives the agent that has begun it, and reaches the kernel later than the next agent looks there. strace holds a real
// one in front of its ioctl.
import { spawn } from "node:child_process";
import { afterEach, beforeEach, expect, it } from "@jest/globals";
import type { LoopVolume, Mounted } from "../../../src/agent/storage/storage.ts";
import { runningCommands } from "../../../src/platform/process/effects/command-port.ts";
import { describeReal, LOOP_PARTS } from "../../harness/real-parts.ts";
import { waitFor } from "../../harness/wait-for.ts";
import { createStorageFixture, GIB, MIB, makeVolume, type StorageFixture } from "./storage-fixture.ts";

/** Long enough for a recovery that does not wait to end before it; one that waits is right whenever it ends. */
const HELD_MICROSECONDS = 3_000_000;

describeReal("a btrfs command of a dead agent", [...LOOP_PARTS, "strace"], () => {
  let fixture: StorageFixture;
  let mounted: Mounted<LoopVolume>;

  beforeEach(async () => {
    fixture = createStorageFixture();
    const volume = makeVolume();
    mounted = await fixture.storage.stage(volume, 2 * GIB, fixture.mountPathOf(volume));
  });
  afterEach(() => fixture.cleanUp());

  const isRunning = async (): Promise<true | undefined> => {
    for await (const { words = [] } of runningCommands(["btrfs"]))
      if (words[0] === "btrfs" && words.includes(mounted.mountPath)) return true;
    return undefined;
  };

  /** As an agent leaves it that is killed right after it has begun it: nobody waits for it. Resolves once it is held. */
  async function leaveBehind(...args: readonly string[]): Promise<void> {
    const hold = `inject=ioctl:delay_enter=${HELD_MICROSECONDS}:when=1`;
    const words = ["strace", "-qq", "-o", "/dev/null", "-e", "trace=ioctl", "-e", hold, "btrfs", ...args];
    spawn("setsid", ["--fork", ...words], { stdio: "ignore" });
    await waitFor("it to run", isRunning);
  }

  it("has ended before its volume is taken up again, which then has its size", async () => {
    await leaveBehind("filesystem", "resize", `1:${GIB + 512 * MIB}`, mounted.mountPath);
    expect(await fixture.storage.recover(mounted)).toBe(2 * GIB);
    const wasRunning = (await isRunning()) === true;
    await waitFor("it to end", async () => ((await isRunning()) === undefined ? true : undefined));
    expect((await fixture.storage.freshReading(mounted)).capacityBytes).toBe(2 * GIB);
    expect(wasRunning).toBe(false);
  });

  it("holds up no extend meanwhile; whatever it does later, its volume then has its size", async () => {
    await leaveBehind("filesystem", "resize", `1:${GIB + 512 * MIB}`, mounted.mountPath);
    const recovering = fixture.storage.recover(mounted);
    recovering.catch(() => undefined);
    expect(await fixture.storage.extend(mounted, 3 * GIB)).toBe(3 * GIB);
    expect(await isRunning()).toBe(true);
    await expect(recovering).rejects.toMatchObject({
      code: "DeviceBusy",
      message: expect.stringContaining("still runs"),
    });
    expect(await fixture.storage.recover(mounted)).toBe(3 * GIB);
    expect(await isRunning()).toBeUndefined();
    expect((await fixture.storage.freshReading(mounted)).capacityBytes).toBe(3 * GIB);
  });
});
