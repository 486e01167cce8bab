// What a user does with his btrfs while its size changes: a balance, running or paused, a scrub, a send, a swapfile. Room goes first and is
// told of; a shrink waits. Real btrfs.
import { type ChildProcess, execFileSync, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "@jest/globals";
import { exclusiveOperation, stopExclusiveOperation } from "../../../src/agent/storage/btrfs/exclusive-operation.ts";
import type { MountedLoop } from "../../../src/agent/storage/storage.ts";
import { createTools, type Tools } from "../../../src/agent/storage/tools.ts";
import { createCommandPort } from "../../../src/platform/process/effects/command-port.ts";
import { directEffects } from "../../../src/platform/process/effects/effects.ts";
import { describeReal, LOOP_PARTS } from "../../harness/real-parts.ts";
import { waitFor } from "../../harness/wait-for.ts";
import {
  createStorageFixture,
  GIB,
  MIB,
  makeShrinkControl,
  makeVolume,
  type StorageFixture,
} from "./storage-fixture.ts";

describeReal("a filesystem that another program is working on", LOOP_PARTS, () => {
  let fixture: StorageFixture;
  let mounted: MountedLoop;
  let told: string[];
  const children: ChildProcess[] = [];

  beforeEach(async () => {
    fixture = createStorageFixture();
    const volume = makeVolume();
    mounted = await fixture.storage.stage(volume, 3 * GIB, fixture.mountPathOf(volume));
    told = [];
  });
  afterEach(async () => {
    for (const child of children.splice(0)) await end(child);
    fixture.cleanUp();
  });

  const state = (): string => exclusiveOperation(mounted.fsid);
  const extend = (sizeBytes: number): Promise<number> =>
    fixture.storage.extend(mounted, sizeBytes, undefined, (message) => told.push(message));
  const shrink = (sizeBytes: number, control = makeShrinkControl()) =>
    fixture.storage.shrink(mounted, sizeBytes, control);
  const btrfs = (...args: string[]): void => void execFileSync("btrfs", args, { stdio: "pipe" });
  const write = (name: string, megabytes: number): string => {
    const path = join(mounted.mountPath, name);
    execFileSync("dd", ["if=/dev/zero", `of=${path}`, "bs=1M", `count=${megabytes}`, "conv=fsync", "status=none"]);
    return path;
  };
  /** A balance moves what was merely reserved just as what was written. */
  const reserve = (name: string, megabytes: number): void => {
    execFileSync("fallocate", ["--length", String(megabytes * MIB), join(mounted.mountPath, name)]);
    execFileSync("sync", ["--file-system", mounted.mountPath]);
  };
  /** So that it is there however fast the machine moves data. */
  const pauseBalance = async (...filters: string[]): Promise<void> => {
    await waitFor("a paused balance", async () => {
      if (state() === "none") start("btrfs", ["balance", "start", ...filters, mounted.mountPath]);
      spawnSync("btrfs", ["balance", "pause", mounted.mountPath]);
      return state() === "balance paused" || undefined;
    });
  };
  function start(program: string, args: readonly string[]): ChildProcess {
    const child = spawn(program, args, { stdio: "ignore" });
    children.push(child);
    return child;
  }

  /** Somebody begins a balance right after the first cancel, before anybody has seen that none runs. */
  function balancedAfterFirstCancel(): { readonly tools: Tools; readonly cancels: () => number } {
    const real = createTools(createCommandPort(directEffects));
    let cancels = 0;
    const run: Tools["run"] = async (...call) => {
      const finished = await real.run(...call);
      cancels += 1;
      if (cancels === 1) await pauseBalance("-dusage=100");
      return finished;
    };
    return { tools: { ...real, run }, cancels: () => cancels };
  }

  it("by a balance that begins right after the one before was cancelled is free once that one is cancelled, too", async () => {
    reserve("data", 300);
    await pauseBalance("-dusage=100");
    const { tools, cancels } = balancedAfterFirstCancel();
    const met: string[] = [];
    await stopExclusiveOperation(tools, mounted, (others) => met.push(others));
    expect(state()).toBe("none");
    expect(cancels()).toBe(2);
    expect(met).toEqual(["balance paused"]);
  });

  it("by a balance that begins right after an operation of ours was cancelled is left at that", async () => {
    reserve("data", 300);
    await pauseBalance("-dusage=100");
    const { tools, cancels } = balancedAfterFirstCancel();
    await stopExclusiveOperation(tools, mounted);
    expect(state()).toBe("balance paused");
    expect(cancels()).toBe(1);
    btrfs("balance", "cancel", mounted.mountPath);
  });

  it("by a paused balance is extended: that one is cancelled, and it is said", async () => {
    reserve("data", 300);
    await pauseBalance("-dusage=100");
    expect(await extend(4 * GIB)).toBe(4 * GIB);
    expect(state()).not.toMatch(/balance/); // its own resize may still commit
    expect(told).toEqual(["a balance paused that is not Tidemark's was cancelled for it: start it again"]);
  });

  it("by a balance that is started again ten times is extended all the same", async () => {
    reserve("data", 300);
    // Fewer than an extend cancels: who is quicker each time does not matter.
    const again = `for i in $(seq 11); do btrfs balance start --full-balance ${mounted.mountPath}; done`;
    start("sh", ["-c", again]);
    await waitFor("a balance", async () => state() === "balance" || undefined);
    for (const size of [4, 5, 6]) expect(await extend(size * GIB)).toBe(size * GIB);
    expect(told[0]).toMatch(/a balance that is not Tidemark's was cancelled/);
  });

  it("by a balance is not made smaller before that has ended, and the balance stays", async () => {
    reserve("data", 300);
    await pauseBalance("-dusage=100");
    expect(await shrink(2 * GIB)).toEqual({
      outcome: "Busy",
      sizeBytes: 3 * GIB,
      message: expect.stringMatching(/another program is working on .* \(balance paused\)/),
    });
    expect(state()).toBe("balance paused");
    btrfs("balance", "cancel", mounted.mountPath);
    expect(await shrink(2 * GIB)).toMatchObject({ outcome: "Succeeded" });
  });

  it("is looked at by an agent that starts without disturbing a balance", async () => {
    reserve("data", 300);
    await pauseBalance("-dusage=100");
    expect(await fixture.storage.recover(mounted)).toBe(3 * GIB);
    expect(state()).toBe("balance paused");
    btrfs("balance", "cancel", mounted.mountPath);
  });

  it("with an active swapfile grows, and is not made smaller below that, which names the file", async () => {
    const ballast = join(mounted.mountPath, "ballast");
    execFileSync("fallocate", ["--length", `${1.75 * GIB}`, ballast]);
    execFileSync("sync", ["--file-system", mounted.mountPath]);
    const swapfile = join(mounted.mountPath, "swap");
    execFileSync("touch", [swapfile]);
    execFileSync("chattr", ["+C", swapfile]);
    execFileSync("chmod", ["600", write("swap", 100)]);
    execFileSync("rm", [ballast]);
    execFileSync("mkswap", [swapfile], { stdio: "pipe" });
    execFileSync("swapon", [swapfile]);
    try {
      expect(await shrink(GIB)).toMatchObject({
        outcome: "FloorReached",
        usedBytes: expect.any(Number),
        message: expect.stringContaining(`an active swapfile is on it (${swapfile})`),
      });
      expect(await extend(4 * GIB)).toBe(4 * GIB);
    } finally {
      execFileSync("swapoff", [swapfile]);
    }
    expect(await shrink(GIB)).toMatchObject({ outcome: "Succeeded", sizeBytes: GIB });
  });

  it("by a scrub and a send grows and shrinks, and neither is ended for it", async () => {
    write("data", 200);
    const snapshot = join(mounted.mountPath, "snapshot");
    btrfs("subvolume", "snapshot", "-r", mounted.mountPath, snapshot);
    // Nobody reads what it sends before the sizes have changed.
    const sending = spawn("btrfs", ["send", "-q", snapshot], { stdio: ["ignore", "pipe", "ignore"] });
    children.push(sending);
    await once(sending.stdout, "readable");
    const scrub = start("btrfs", ["scrub", "start", "-B", mounted.mountPath]);
    const scrubbed = once(scrub, "exit");
    expect(await extend(4 * GIB)).toBe(4 * GIB);
    expect(await shrink(2 * GIB)).toMatchObject({ outcome: "Succeeded", sizeBytes: 2 * GIB });
    expect(told).toEqual([]);
    expect(sending.exitCode).toBeNull();
    const sent = once(sending, "exit");
    sending.stdout.resume();
    expect(await sent).toEqual([0, null]);
    expect(await scrubbed).toEqual([0, null]);
  });
});

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const ended = once(child, "exit");
  child.kill("SIGKILL");
  await ended;
}
