// Two agents of one node and one volume: whichever has it holds the lock from before it touches the volume until it has let go of it.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "@jest/globals";
import { createFilesystemLocks } from "../../../../src/agent/apply/filesystem-lock.ts";
import type { Storage } from "../../../../src/agent/storage/storage.ts";
import { StorageError } from "../../../../src/agent/storage/storage-error.ts";
import { volumeOf } from "../../../../src/agent/volumes/volume-state.ts";
import { createCommandPort } from "../../../../src/platform/process/effects/command-port.ts";
import { directEffects } from "../../../../src/platform/process/effects/effects.ts";
import { createFilePort } from "../../../../src/platform/process/effects/file-port.ts";
import { createSimulatedNode, type SimulatedNode, type SimulatedNodeParts } from "../../../harness/simulated-node.ts";

describe("the lock of a volume's filesystem", () => {
  let directory: string;
  let nodes: SimulatedNode[];

  beforeEach(() => {
    directory = mkdtempSync(join(tmpdir(), "tidemark-staging-lock-"));
    nodes = [];
  });
  afterEach(async () => {
    // One after the other: agents of one volume would unmount it under each other.
    for (const node of nodes) await node.stop();
    rmSync(directory, { recursive: true });
  });

  async function agent(parts: SimulatedNodeParts = {}): Promise<SimulatedNode> {
    const node = await createSimulatedNode(directory, parts);
    nodes.push(node);
    return node;
  }
  /** Whether another agent could have it now. */
  async function isFree(node: SimulatedNode): Promise<boolean> {
    const locks = createFilesystemLocks(
      join(directory, "locks"),
      createFilePort(directEffects),
      createCommandPort(directEffects),
    );
    const { fsid } = volumeOf(node.state().record);
    const isOurs = await locks.acquire(fsid);
    await locks.release(fsid);
    return isOurs;
  }
  /** Asks, right before and right after each of these calls of storage. */
  function askingAround(asked: [string, boolean][]): (storage: Storage) => Partial<Storage> {
    const ask = async <T>(what: string, call: () => Promise<T>): Promise<T> => {
      asked.push([`before ${what}`, await isFree(nodes[0] as SimulatedNode)]);
      const result = await call();
      asked.push([`after ${what}`, await isFree(nodes[0] as SimulatedNode)]);
      return result;
    };
    return ({ stage, find, unstage, remove }) => ({
      stage: (...args) => ask("stage", () => stage(...args)),
      find: (...args) => ask("find", () => find(...args)),
      unstage: (...args) => ask("unstage", () => unstage(...args)),
      remove: (...args) => ask("remove", () => remove(...args)),
    });
  }

  it("is held from before the first mount until after the unmount, and is free then", async () => {
    const asked: [string, boolean][] = [];
    const node = await agent({ around: askingAround(asked) });
    await node.stage();
    await node.work.staging.unstage(node.volume(), node.stagingPath);
    expect(asked).toEqual([
      ["before stage", false],
      ["after stage", false],
      ["before unstage", false],
      ["after unstage", false],
    ]);
    expect(await isFree(node)).toBe(true);
  });

  it("is held while a member is deleted", async () => {
    const asked: [string, boolean][] = [];
    const node = await agent({ around: askingAround(asked) });
    await node.stage();
    await node.work.staging.unstage(node.volume(), node.stagingPath);
    asked.length = 0;
    await node.work.staging.remove(node.volume(), node.layout);
    expect(asked).toEqual([
      ["before remove", false],
      ["after remove", false],
    ]);
    expect(await isFree(node)).toBe(true);
  });

  it("and its record stay until the member is deleted: a crash in between leaves nothing that nobody knows of", async () => {
    let recorded: boolean | undefined;
    const node = await agent({
      around: ({ remove }) => ({
        remove: async (...args) => {
          await remove(...args);
          recorded = nodes[0]?.recordOnDisk() !== undefined;
        },
      }),
    });
    await node.stage();
    await node.work.staging.unstage(node.volume(), node.stagingPath);
    await node.work.staging.remove(node.volume(), node.layout);
    expect([recorded, node.recordOnDisk()]).toEqual([true, undefined]);
  });

  it("is held by what could not be unmounted, which is sampled on", async () => {
    let isBusy = true;
    const node = await agent({
      around: ({ unstage }) => ({
        unstage: async (...args) => {
          if (!isBusy) return unstage(...args);
          throw new StorageError("DeviceBusy", "somebody works in it");
        },
      }),
    });
    await node.stage();
    const { reading } = node.state();
    await expect(node.work.staging.unstage(node.volume(), node.stagingPath)).rejects.toThrow("somebody works in it");
    expect(node.state()).toMatchObject({ closing: false, reading: { capacityBytes: expect.any(Number) } });
    expect(node.state().reading).not.toBe(reading);
    expect(await isFree(node)).toBe(false);
    isBusy = false; // or its end would fail as well
  });

  it.each<readonly [string, (node: SimulatedNode) => Promise<unknown>]>([
    ["take over what is mounted", (node) => node.work.staging.adopt(node.volume())],
    ["mount it", (node) => node.stage()],
    ["delete its member", (node) => node.work.staging.remove(node.volume(), node.layout)],
  ])("keeps a second agent from everything while the first one lives: it does not %s", async (_what, act) => {
    const first = await agent();
    await first.stage();
    const touched: string[] = [];
    const touches = (what: string) => async (): Promise<never> => {
      touched.push(what);
      throw new Error(`the second agent calls ${what}`);
    };
    const around = (): Partial<Storage> => ({
      stage: touches("stage"),
      find: touches("find"),
      unstage: touches("unstage"),
      remove: touches("remove"),
    });
    const second = await agent({ around });
    await expect(act(second)).rejects.toMatchObject({ code: "DeviceBusy" });
    expect([touched, second.state().mounted]).toEqual([[], undefined]);
  });

  it("is taken by the next agent once the first one has let go: it takes over what its record names", async () => {
    const first = await agent({ lockDirectory: "locks-of-the-dead" });
    await first.stage();
    const second = await agent();
    await second.work.staging.adopt(second.volume());
    expect(second.state().mounted?.volume.mountPath).toBe(first.stagingPath);
    expect(await isFree(second)).toBe(false);
  });
});
