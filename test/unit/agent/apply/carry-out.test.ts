// What a look at a volume comes to, for each decision: seen in the world afterwards, with the agent's own reconciler, runner, staging and
// records on the simulated disk.
import { existsSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "@jest/globals";
import { simulatedCapacityPath } from "../../../../src/agent/storage/simulated/simulated-reader.ts";
import type { Storage } from "../../../../src/agent/storage/storage.ts";
import type { FilesystemLayoutSpec, Operation } from "../../../../src/contracts/kinds/filesystem-layout.ts";
import { GIB } from "../../../../src/contracts/quantities/quantity.ts";
import { buildLayout } from "../../../builders/filesystem-layout.ts";
import { buildSpanLayout, buildSpanMember } from "../../../builders/span-layout.ts";
import { createSimulatedNode, type SimulatedNode, type SimulatedNodeParts } from "../../../harness/simulated-node.ts";
import { eventually } from "../../../harness/wait-for.ts";

const [FIRST, SECOND, THIRD] = ["2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z", "2026-01-01T00:02:00Z"];
const target = (size: string, from: string, epoch: number, decidedAt = SECOND): FilesystemLayoutSpec["target"] => ({
  ...{ size, from, epoch, decidedAt },
});
const operation = (kind: Operation["kind"], from: string, to: string, decidedAt = SECOND): Operation => ({
  ...{ kind, from, to, epoch: 3, decidedAt, startedAt: FIRST, step: "at work" },
});

describe("a look at a volume", () => {
  let directory: string;
  let nodes: SimulatedNode[];

  beforeEach(() => {
    directory = mkdtempSync(join(tmpdir(), "tidemark-carry-out-"));
    nodes = [];
  });
  afterEach(async () => {
    await Promise.all(nodes.map((node) => node.stop()));
    rmSync(directory, { recursive: true });
  });

  /** Of 4 GiB, mounted by an agent that is no more. */
  async function nodeWith(
    spec: Partial<FilesystemLayoutSpec>,
    { left = {}, ...parts }: SimulatedNodeParts = {},
  ): Promise<SimulatedNode> {
    const members: FilesystemLayoutSpec["members"] = [
      { name: "member-0", size: "4Gi", source: { loop: { file: "member-0.img" } } },
    ];
    const layout = buildLayout({ members, ...spec });
    const node = await createSimulatedNode(directory, { layout, left: { epoch: 3, ...left }, ...parts });
    nodes.push(node);
    node.look();
    return node;
  }
  const looked = (node: SimulatedNode, times = 1): Promise<void> =>
    eventually("the look to be over", () => node.told.filter((what) => what === "idle").length >= times);
  const change = (node: SimulatedNode, spec: Partial<FilesystemLayoutSpec>): void => {
    node.layout = { ...node.layout, spec: { ...node.layout.spec, ...spec } };
    node.look();
  };

  it("refuses a deposed leader's target: nothing changes, it is said once, and taken back with the next leader's", async () => {
    const node = await nodeWith({ target: target("5Gi", "4Gi", 2) });
    await looked(node);
    node.look();
    await looked(node, 2);
    expect(node.told.filter((what) => what === "StaleEpoch")).toEqual(["StaleEpoch"]);
    expect(node.state().targetRefusal).toContain("epoch 2 is refused");
    expect([await node.sizeBytes(), node.ended]).toEqual([4 * GIB, []]);
    change(node, { target: target("5Gi", "4Gi", 4, THIRD) });
    await eventually("the extend", () => node.ended.length > 0);
    expect([await node.sizeBytes(), node.state().targetRefusal]).toEqual([5 * GIB, undefined]);
  });

  it("makes member and filesystem one size before it decides anything about what it has taken over", async () => {
    const calls: string[] = [];
    const around = ({ recover, extend }: Storage): Partial<Storage> => ({
      recover: (volume) => recover(volume).finally(() => calls.push("recovered")),
      extend: (...args) => {
        calls.push("extends");
        return extend(...args);
      },
    });
    const node = await nodeWith({ target: target("5Gi", "4Gi", 3) }, { around });
    await eventually("the extend", () => node.ended.length > 0);
    expect(calls).toEqual(["recovered", "extends"]);
  });

  it("resumes an extend that an earlier agent has begun, whatever is wanted by now", async () => {
    const left = { operation: operation("Extend", "4Gi", "5Gi") };
    const node = await nodeWith({ target: target("4Gi", "4Gi", 3, THIRD) }, { left });
    await eventually("its end", () => node.ended.length > 0);
    expect(node.ended[0]).toMatchObject({ kind: "Extend", outcome: "Succeeded", reached: "5Gi", startedAt: FIRST });
    expect(await node.sizeBytes()).toBe(5 * GIB);
    await eventually("its record", () => node.recordOnDisk()?.operation === undefined);
    expect(node.recordOnDisk()).toMatchObject({ lastOperation: { outcome: "Succeeded" }, endedDecidedAt: SECOND });
  });

  it("resumes a shrink that an earlier agent has begun and that is still wanted, after what its commands do has ended", async () => {
    const calls: string[] = [];
    const around = ({ recover, shrink }: Storage): Partial<Storage> => ({
      recover: (volume) => recover(volume).finally(() => calls.push("recovered")),
      shrink: (...args) => {
        calls.push("shrinks");
        return shrink(...args);
      },
    });
    const left = { operation: operation("Shrink", "4Gi", "3Gi") };
    const node = await nodeWith({ target: target("3Gi", "4Gi", 3) }, { left, around });
    await eventually("its end", () => node.ended.length > 0);
    expect(node.ended[0]).toMatchObject({ kind: "Shrink", outcome: "Succeeded", reached: "3Gi" });
    expect(await node.sizeBytes()).toBe(3 * GIB);
    expect(calls.slice(-2)).toEqual(["recovered", "shrinks"]);
  });

  it("abandons a shrink that an earlier agent has begun when another size was decided since, and goes for that", async () => {
    const left = { operation: operation("Shrink", "4Gi", "1Gi") };
    const node = await nodeWith({ target: target("5Gi", "4Gi", 3, THIRD) }, { left });
    await eventually("both ends", () => node.ended.length === 2);
    expect(node.ended).toMatchObject([
      { kind: "Shrink", outcome: "Cancelled", reached: "4Gi", message: expect.stringContaining("decided since") },
      { kind: "Extend", outcome: "Succeeded", reached: "5Gi" },
    ]);
    expect(await node.sizeBytes()).toBe(5 * GIB);
  });

  it("cancels a running shrink for an extend, which then comes at once", async () => {
    // It goes on only once it is cancelled.
    const around = ({ shrink }: Storage): Partial<Storage> => ({
      shrink: async (volume, sizeBytes, control) => {
        await new Promise((resolve) => control.signal.addEventListener("abort", resolve, { once: true }));
        return shrink(volume, sizeBytes, control);
      },
    });
    const node = await nodeWith({ target: target("512Mi", "4Gi", 3) }, { around });
    await eventually("the shrink to run", () => node.state().running?.phase === "UnderWay");
    change(node, { target: target("6Gi", "4Gi", 3, THIRD) });
    await eventually("both ends", () => node.ended.length === 2);
    expect(node.ended).toMatchObject([
      {
        kind: "Shrink",
        outcome: "Cancelled",
        reason: "ShrinkCancelled",
        message: expect.stringContaining("goes first"),
      },
      { kind: "Extend", outcome: "Succeeded", reached: "6Gi" },
    ]);
    expect(await node.sizeBytes()).toBe(6 * GIB);
  });

  it("goes on with a shrink when a deposed leader's target asks for more", async () => {
    let goOn = (): void => undefined;
    const around = ({ shrink }: Storage): Partial<Storage> => ({
      shrink: async (...args) => {
        await new Promise<void>((resolve) => (goOn = resolve));
        return shrink(...args);
      },
    });
    const node = await nodeWith({ target: target("2Gi", "4Gi", 3) }, { around });
    await eventually("the shrink to run", () => node.state().running?.phase === "UnderWay");
    const told = node.told.length;
    change(node, { target: target("6Gi", "4Gi", 2, THIRD) });
    await eventually("that to be looked at", () => node.told.length > told);
    goOn();
    await eventually("its end", () => node.ended.length > 0);
    expect(node.ended).toMatchObject([{ kind: "Shrink", outcome: "Succeeded", reached: "2Gi" }]);
  });

  it("deletes a member that shall go once it is not mounted, with its record, and not before", async () => {
    const members = (buildLayout().spec.members ?? []).map((member) => ({ ...member, state: "Removed" as const }));
    const node = await nodeWith({ members });
    await looked(node);
    expect(await node.sizeBytes()).toBe(GIB);
    await node.work.staging.unstage(node.volume(), node.stagingPath);
    node.look();
    await eventually("its removal", () => node.state().phase === "Removed" && !node.state().recorded);
    expect([await node.sizeBytes(), node.recordOnDisk(), existsSync(node.stagingPath)]).toEqual([
      undefined,
      undefined,
      false,
    ]);
    expect(readdirSync(join(directory, "members"))).toEqual([]);
  });

  it("lets go of a span's member that has left its filesystem, and says no more of it then", async () => {
    const settled: string[] = [];
    const around = (): Partial<Storage> => ({
      stage: async (volume, _size, mountPath) => {
        writeFileSync(simulatedCapacityPath(mountPath), String(4 * GIB)); // for readings
        return { ...volume, device: "/dev/loop9", mountPath };
      },
      find: async (volume, mountPath) => ({ ...volume, device: "/dev/loop9", mountPath }),
      recover: async () => 4 * GIB,
      unstage: async () => undefined,
      members: async () => [
        { name: "m0", state: "Present", sizeBytes: 4 * GIB },
        { name: "m1", state: settled.length === 0 ? "Leaving" : "Removed" },
      ],
      releaseMembers: async (volume) => void settled.push(volume.handle),
    });
    const members = [buildSpanMember("m0"), buildSpanMember("m1", {}, { state: "Removed" })];
    const layout = buildSpanLayout({ members });
    const node = await createSimulatedNode(directory, { layout, left: { epoch: 3 }, around });
    nodes.push(node);
    node.look();
    await eventually("it to be let go of", () => settled.length > 0);
    await eventually(
      "the node to say so",
      () => node.state().mounted?.members.every(({ state }) => state !== "Leaving") === true,
    );
    await eventually("the looks to be over", () => !node.work.queues.isBusy(node.handle));
    expect([settled, node.ended]).toEqual([[node.handle], []]);
  });
});
