// An unstage that fails on its way, and a mount that somebody else has taken away: the next pod gets the filesystem, never the directory below.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "@jest/globals";
import { simulatedCapacityPath } from "../../../../src/agent/storage/simulated/simulated-reader.ts";
import type { Storage } from "../../../../src/agent/storage/storage.ts";
import { StorageError } from "../../../../src/agent/storage/storage-error.ts";
import { createSimulatedNode, type SimulatedNode } from "../../../harness/simulated-node.ts";

describe("a volume whose mount has gone", () => {
  let directory: string;
  let node: SimulatedNode;
  /** On which side of the unmount. */
  let failing: "before" | "behind" | "nowhere";

  beforeEach(async () => {
    directory = mkdtempSync(join(tmpdir(), "tidemark-unstage-failed-"));
    failing = "behind";
    // As where a member's driver is away, or a loop device is open.
    const around = ({ unstage }: Storage): Partial<Storage> => ({
      unstage: async (...args) => {
        if (failing !== "before") await unstage(...args);
        if (failing !== "nowhere") throw new StorageError("MemberDriverFailed", "the array is on fire");
      },
    });
    node = await createSimulatedNode(directory, { around });
    await node.stage();
  });
  afterEach(async () => {
    failing = "nowhere";
    await node.stop();
    rmSync(directory, { recursive: true });
  });

  const unstage = (): Promise<void> => node.work.staging.unstage(node.volume(), node.stagingPath);
  const isMounted = async (): Promise<boolean> => {
    const mounted = node.state().mounted?.volume;
    const found = mounted && (await node.storage.find(mounted, node.stagingPath));
    return found !== undefined;
  };

  it("is not mounted, nor sampled, after an unstage that failed behind its unmount, and says why it is not let go of yet", async () => {
    node.read();
    await expect(unstage()).rejects.toThrow("the array is on fire");
    const leavingProblem = { reason: "WaitingForMember", message: "MemberDriverFailed: the array is on fire" };
    const gone = { mounted: undefined, reading: undefined, closing: false, problem: undefined };
    expect(node.state()).toMatchObject({ ...gone, leavingProblem });
  });

  it("is mounted by the next stage", async () => {
    await expect(unstage()).rejects.toThrow("the array is on fire");
    await node.stage();
    expect(await isMounted()).toBe(true);
  });

  it("is let go of by a later unstage, which does the rest", async () => {
    await expect(unstage()).rejects.toThrow("the array is on fire");
    failing = "nowhere";
    await unstage();
    const { mounted, held, leavingProblem, record } = node.state();
    expect([mounted, held, leavingProblem, record.stagingPath]).toEqual([undefined, false, undefined, undefined]);
  });

  it("is mounted anew by a stage where somebody else has unmounted it", async () => {
    rmSync(simulatedCapacityPath(node.stagingPath));
    expect(await isMounted()).toBe(false);
    await node.stage();
    expect(await isMounted()).toBe(true);
  });

  it("stays as it is where nobody can tell whether it is mounted: stage and unstage fail", async () => {
    const { find } = node.storage;
    failing = "before";
    node.storage.find = async () => Promise.reject(new StorageError("WaitingForMember", "lvmd is away"));
    await expect(node.stage()).rejects.toThrow("lvmd is away");
    await expect(unstage()).rejects.toThrow("the array is on fire");
    expect(node.state().mounted?.volume.mountPath).toBe(node.stagingPath);
    node.storage.find = find;
  });
});
