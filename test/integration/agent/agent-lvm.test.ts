// The agent's part of the backend lvm, from the LogicalVolume to the end of its volume: the agent's own process and real filesystems, on a
// fake lvmd's loop devices.
import { randomUUID } from "node:crypto";
import { closeSync, fsyncSync, mkdirSync, openSync, readFileSync, readSync, writeFileSync, writeSync } from "node:fs";
import { join } from "node:path";
import { status } from "@grpc/grpc-js";
import { afterAll, beforeAll, describe, expect, it } from "@jest/globals";
import type { FilesystemLayoutSpec } from "../../../src/contracts/kinds/filesystem-layout.ts";
import {
  LOGICAL_VOLUMES,
  type LogicalVolume,
  type LogicalVolumeSpec,
} from "../../../src/contracts/kinds/logical-volume.ts";
import { NODE_STORAGES, type NodeStorageStatus } from "../../../src/contracts/kinds/node-storage.ts";
import { EVENTS } from "../../../src/contracts/kubernetes/resources.ts";
import { API_VERSION } from "../../../src/contracts/names.ts";
import { GIB, MIB } from "../../../src/contracts/quantities/quantity.ts";
import { type FakeLvmd, startFakeLvmd } from "../../fakes/fake-lvmd.ts";
import { freshMetrics } from "../../harness/fresh-metrics.ts";
import { describeReal, STACK_PARTS } from "../../harness/real-parts.ts";
import {
  type AgentUnderTest,
  NODE_NAME,
  startAgentUnderTest,
  type VolumeUnderTest,
  volumeUnderTest,
  waitFor,
} from "./agent-under-test.ts";

const target = (size: string, from: string) => ({ size, from, epoch: 1, decidedAt: new Date().toISOString() });

const MARK = "left by the source";

describeReal("an agent with an lvmd", STACK_PARTS, () => {
  let agent: AgentUnderTest;
  let lvmd: FakeLvmd;
  let volume: VolumeUnderTest;
  const volumeUID = randomUUID();

  beforeAll(async () => {
    agent = await startAgentUnderTest();
    const directory = join(agent.directory, "lvmd");
    mkdirSync(directory);
    lvmd = await startFakeLvmd(directory);
    volume = volumeUnderTest(agent, volumeUID, "1Gi");
    await startAgent();
  });
  afterAll(async () => {
    await agent.killAgent();
    await lvmd.stop();
    await agent.dispose();
  });

  const startAgent = (): Promise<void> => agent.startAgent({}, { "lvmd-socket": lvmd.socketPath });
  const order = (name: string, spec: Partial<LogicalVolumeSpec> = {}): Promise<LogicalVolume> =>
    agent.client.create("test/logical-volume", LOGICAL_VOLUMES, {
      apiVersion: API_VERSION,
      kind: "LogicalVolume",
      metadata: { name },
      spec: {
        nodeName: NODE_NAME,
        deviceClass: "thick",
        size: "1Gi",
        claimRef: { namespace: "shop", name: "data", uid: volumeUID },
        ...spec,
      },
    });
  const logicalVolume = (name: string) => agent.client.get(LOGICAL_VOLUMES, { name });
  const orderedStatus = async (name: string): Promise<NonNullable<LogicalVolume["status"]>> => {
    await waitFor(`what the agent says of ${name}`, async () => (await logicalVolume(name))?.status !== undefined);
    return (await logicalVolume(name))?.status ?? {};
  };
  const nodeStorage = async (): Promise<NodeStorageStatus> =>
    (await agent.client.get(NODE_STORAGES, { name: NODE_NAME }))?.status ?? {};
  const freeOf = async (name: string): Promise<string | undefined> =>
    (await nodeStorage()).deviceClasses?.find((deviceClass) => deviceClass.name === name)?.free;
  const members = (volumeID: string, state: "Present" | "Removed" = "Present"): FilesystemLayoutSpec["members"] => [
    {
      name: "member-0",
      size: "1Gi",
      state,
      source: { logicalVolume: { name: volume.handle, volumeID, deviceClass: "thick" } },
    },
  ];
  /** At an object that has changed in nothing that matters. */
  const lookedAgain = async (name: string): Promise<void> => {
    await agent.client.mergePatch(
      "test/look",
      LOGICAL_VOLUMES,
      { name },
      { metadata: { labels: { looked: "again" } } },
    );
    const later = `fs-${randomUUID()}`;
    await order(later, { size: "16Mi" });
    await orderedStatus(later);
  };
  const made = (name: string): number => lvmd.calls.filter((call) => call === `CreateLV ${name}`).length;
  /** What only a snapshot of the volume has. */
  const leaveMark = (volumeID = ""): void => {
    const device = openSync(lvmd.lvm.volumeOf("thin", volumeID).path, "r+");
    writeSync(device, MARK);
    fsyncSync(device);
    closeSync(device);
  };
  const markOn = (volumeID = ""): string => {
    const device = openSync(lvmd.lvm.volumeOf("thin", volumeID).path, "r");
    const found = Buffer.alloc(MARK.length);
    readSync(device, found, 0, found.length, 0);
    closeSync(device);
    return found.toString();
  };
  let uid = "";

  it("tells every device class on the node's NodeStorage, beside its own disk", async () => {
    await waitFor("the classes", async () => (await freeOf("thin")) !== undefined);
    expect((await nodeStorage()).deviceClasses).toEqual([
      expect.objectContaining({ name: "loop", backend: "loop" }),
      { name: "thick", backend: "lvm", free: "64Gi", size: "64Gi", default: true },
      { name: "thin", backend: "lvm", free: "64Gi", size: "64Gi", thinPool: { dataPercent: 13, metadataPercent: 4 } },
    ]);
  });

  it("makes the volume of a LogicalVolume once, named by its UID and tagged with its claim", async () => {
    uid = (await order(volume.handle)).metadata.uid ?? "";
    expect(await orderedStatus(volume.handle)).toEqual({ observedGeneration: 1, volumeID: uid, currentSize: "1Gi" });
    expect(lvmd.lvm.volumeOf("thick", uid).tags).toEqual([
      `tidemark.dev/volume-uid=${volumeUID}`,
      "tidemark.dev/claim=shop/data",
    ]);
    expect(made(uid)).toBe(1);
  });

  it("tells what is free then", async () => {
    lvmd.setClass("thin", { freeBytes: 10 * GIB });
    await waitFor("the new figure", async () => (await freeOf("thin")) === "10Gi");
    expect(await freeOf("thick")).toBe("63Gi");
  });

  it("makes a filesystem on the volume when kubelet stages it", async () => {
    await volume.applyLayout({ backend: "lvm", members: members(uid) });
    await volume.stage();
    expect(volume.capacityBytes()).toBe(GIB);
    writeFileSync(join(volume.stagingPath, "kept"), "water");
    await waitFor("its status", async () => (await volume.layout()).status?.members?.[0]?.state === "Present");
    expect((await volume.layout()).status?.members).toEqual([{ name: "member-0", size: "1Gi", state: "Present" }]);
  });

  it("says in samples how far its class lets it grow", async () => {
    await waitFor("a sample", () => agent.samples.some(({ nodeFreeBytes }) => nodeFreeBytes === 63 * GIB));
  });

  it("grows it to the target, in whole extents and never above, and the LogicalVolume follows", async () => {
    await volume.applyLayout({ backend: "lvm", members: members(uid), target: target("3073Mi", "1Gi") });
    await waitFor("the extend", () => volume.capacityBytes() === 3 * GIB);
    await waitFor("its size", async () => (await logicalVolume(volume.handle))?.status?.currentSize === "3Gi");
    expect(lvmd.lvm.volumeOf("thick", uid).sizeBytes).toBe(3 * GIB);
  });

  it("shrinks the filesystem, then the volume, and the LogicalVolume follows", async () => {
    await volume.applyLayout({ backend: "lvm", members: members(uid), target: target("2Gi", "3Gi") });
    await waitFor("the shrink", () => lvmd.lvm.volumeOf("thick", uid).sizeBytes === 2 * GIB);
    await waitFor("its end", async () => (await volume.layout()).status?.lastOperation?.kind === "Shrink");
    await waitFor("its size", async () => (await logicalVolume(volume.handle))?.status?.currentSize === "2Gi");
    expect(volume.capacityBytes()).toBe(2 * GIB);
    expect(readFileSync(join(volume.stagingPath, "kept"), "utf8")).toBe("water");
  });

  it("follows a volume that somebody grows by hand", async () => {
    await lvmd.lvm.grow(lvmd.lvm.volumeOf("thick", uid), 2 * GIB + 64 * MIB);
    lvmd.setClass("thick", {});
    await waitFor("its size", async () => (await logicalVolume(volume.handle))?.status?.currentSize === "2112Mi");
  });

  it("finds it again after a restart, and makes nothing anew", async () => {
    await agent.killAgent();
    await startAgent();
    await waitFor("its status", async () => (await volume.layout()).status?.mounted === true);
    expect(made(uid)).toBe(1);
  });

  it("is served with a mounted volume while lvmd is away, and grows it once that is back", async () => {
    await lvmd.stop();
    await volume.applyLayout({ backend: "lvm", members: members(uid), target: target("3Gi", "2112Mi") });
    await waitFor("a failed extend", async () => (await volume.layout()).status?.lastOperation?.outcome === "Failed");
    expect(readFileSync(join(volume.stagingPath, "kept"), "utf8")).toBe("water");
    await waitFor("the problem", async () => JSON.stringify(await nodeStorage()).includes("lvmd does not answer"));
    expect(await freeOf("thick")).toBe("0");
    await lvmd.start();
    await waitFor("the class again", async () => (await freeOf("thick")) !== "0");
    await volume.applyLayout({ backend: "lvm", members: members(uid), target: target("3Gi", "2112Mi") });
    await waitFor("the extend", () => volume.capacityBytes() === 3 * GIB);
  });

  it.each<[string, Partial<LogicalVolumeSpec>, number, string]>([
    ["too large", { size: "1Pi" }, status.RESOURCE_EXHAUSTED, "no enough space left"],
    ["of a class that is not there", { deviceClass: "none" }, status.NOT_FOUND, "device-class not found: none"],
    ["said to be there", { volumeID: "by-hand" }, status.NOT_FOUND, "has no volume by-hand"],
    ["a snapshot of nothing", { source: `fs-${randomUUID()}` }, status.NOT_FOUND, "there is no such object"],
    ["a snapshot of a thick volume", { source: `fs-${volumeUID}` }, status.UNIMPLEMENTED, "not thin"],
  ])("says why a volume that is %s is not made, and does not try again", async (_which, spec, code, message) => {
    const name = `fs-${randomUUID()}`;
    const { metadata } = await order(name, spec);
    expect(await orderedStatus(name)).toMatchObject({ code, message: expect.stringContaining(message) });
    await lookedAgain(name);
    expect(lvmd.calls.filter((call) => /^Create/.test(call) && call.endsWith(metadata.uid ?? "")).length).toBeLessThan(
      2,
    );
    await agent.client.delete("test/delete", LOGICAL_VOLUMES, { name });
  });

  it("tries again what lvmd could not answer", async () => {
    lvmd.refusals.set("CreateLV", { code: status.UNAVAILABLE, details: "busy" });
    const name = `fs-${randomUUID()}`;
    const { metadata } = await order(name);
    await waitFor("two attempts", () => made(metadata.uid ?? "") >= 2);
    expect((await logicalVolume(name))?.status).toBeUndefined();
    lvmd.refusals.clear();
    expect(await orderedStatus(name)).toMatchObject({ volumeID: metadata.uid });
    expect((await orderedStatus(name)).code).toBeUndefined();
  });

  it("finds a volume that is said to be there", async () => {
    await lvmd.lvm.make("thick", "by-hand", 16 * MIB, []);
    const name = `fs-${randomUUID()}`;
    await order(name, { volumeID: "by-hand" });
    expect(await orderedStatus(name)).toMatchObject({ volumeID: "by-hand", currentSize: "16Mi" });
  });

  it("begins a volume as a snapshot of another", async () => {
    const source = `fs-${randomUUID()}`;
    await order(source, { deviceClass: "thin", size: "64Mi" });
    leaveMark((await orderedStatus(source)).volumeID);
    const name = `fs-${randomUUID()}`;
    const { metadata } = await order(name, { deviceClass: "thin", size: "128Mi", source });
    expect(await orderedStatus(name)).toMatchObject({ volumeID: metadata.uid, currentSize: "128Mi" });
    expect(markOn(metadata.uid)).toBe(MARK);
    expect(lvmd.lvm.volumeOf("thin", metadata.uid ?? "").tags).toEqual(
      expect.arrayContaining(["tidemark.dev/formatted", "tidemark.dev/copy"]),
    );
  });

  it("begins no volume as a snapshot of one that is being made smaller, and does afterwards", async () => {
    const source = `fs-${randomUUID()}`;
    await order(source, { deviceClass: "thin", size: "64Mi" });
    const { volumeID: sourceID = "" } = await orderedStatus(source);
    const { tags } = lvmd.lvm.volumeOf("thin", sourceID);
    lvmd.lvm.retag(lvmd.lvm.volumeOf("thin", sourceID), [...tags, "tidemark.dev/unmounted-shrink"]);
    const name = `fs-${randomUUID()}`;
    const { metadata } = await order(name, { deviceClass: "thin", size: "64Mi", source });
    await waitFor("the event", async () => {
      const { items } = await agent.client.list(EVENTS, { namespace: "default" });
      return items.some(({ message }) => message?.includes("its filesystem is being made smaller"));
    });
    expect(() => lvmd.lvm.volumeOf("thin", metadata.uid ?? "")).toThrow("not found");
    lvmd.lvm.retag(lvmd.lvm.volumeOf("thin", sourceID), tags);
    expect(await orderedStatus(name)).toMatchObject({ volumeID: metadata.uid });
  });

  it.each([
    ["snapshot", "snap-", "ro" as const],
    ["copy", "fs-", undefined],
  ])("tags a %s of a raw block volume as one, and never as to be renamed", async (_what, prefix, accessType) => {
    const source = `fs-${randomUUID()}`;
    await order(source, { deviceClass: "thin", size: "64Mi", volumeMode: "Block" });
    leaveMark((await orderedStatus(source)).volumeID);
    const uid = randomUUID();
    const asked = { deviceClass: "thin", size: "64Mi", source, volumeMode: "Block" as const };
    await order(`${prefix}${uid}`, accessType === undefined ? asked : { ...asked, accessType });
    const { volumeID = "" } = await orderedStatus(`${prefix}${uid}`);
    expect(markOn(volumeID)).toBe(MARK);
    expect(lvmd.lvm.volumeOf("thin", volumeID).tags).toEqual([
      `tidemark.dev/volume-uid=${uid}`,
      "tidemark.dev/claim=shop/data",
      "tidemark.dev/volume-mode=Block",
    ]);
  });

  describe("a snapshot", () => {
    const name = `snap-${randomUUID()}`;
    const ask = (asked: string, spec: Partial<LogicalVolumeSpec>) =>
      agent.client.mergePatch("test/ask", LOGICAL_VOLUMES, { name: asked }, { spec });
    let volumeID = "";

    it("is as large as its source is when it is made, whatever it was then, and no volume's by its tags", async () => {
      const source = `fs-${randomUUID()}`;
      await order(source, { deviceClass: "thin", size: "128Mi" });
      await orderedStatus(source);
      volumeID =
        (await order(name, { deviceClass: "thin", size: "64Mi", source, accessType: "ro" })).metadata.uid ?? "";
      expect(await orderedStatus(name)).toMatchObject({ volumeID, currentSize: "128Mi" });
      expect(lvmd.lvm.volumeOf("thin", volumeID).tags).toEqual([
        `tidemark.dev/volume-uid=${name.slice("snap-".length)}`,
        "tidemark.dev/claim=shop/data",
        "tidemark.dev/formatted",
      ]);
    });

    it("stays while lvmd cannot remove it, and goes when its state says so, and is not made again", async () => {
      lvmd.refusals.set("WipeAndRemoveLV", { code: status.FAILED_PRECONDITION, details: "in use" });
      await ask(name, { state: "Removed" });
      await waitFor("an attempt", () => lvmd.calls.includes(`WipeAndRemoveLV ${volumeID}`));
      expect((await logicalVolume(name))?.status?.state).toBeUndefined();
      expect(lvmd.lvm.volumeOf("thin", volumeID).name).toBe(volumeID);
      lvmd.refusals.clear();
      await waitFor("its status", async () => (await logicalVolume(name))?.status?.state === "Removed");
      expect((await logicalVolume(name))?.status?.volumeID).toBeUndefined();
      expect(() => lvmd.lvm.volumeOf("thin", volumeID)).toThrow("not found");
      await agent.killAgent();
      await startAgent();
      const later = `fs-${randomUUID()}`;
      await order(later);
      await orderedStatus(later);
      expect(lvmd.calls.filter((call) => call === `CreateLVSnapshot ${volumeID}`)).toHaveLength(1);
    });

    it.each<[string, string, () => string]>([
      ["a volume's object", `fs-${randomUUID()}`, () => "only its FilesystemLayout removes"],
      ["one that is not tagged as it", `snap-${randomUUID()}`, () => "not tagged as this snapshot's"],
    ])("that is %s is left, and it is said why", async (_which, other, why) => {
      const owner = [`tidemark.dev/volume-uid=${randomUUID()}`];
      await lvmd.lvm.make("thin", `of-${other}`, 16 * MIB, owner);
      await order(other, { deviceClass: "thin", volumeID: `of-${other}` });
      await orderedStatus(other);
      await ask(other, { state: "Removed" });
      await waitFor("the event", async () => {
        const { items } = await agent.client.list(EVENTS, { namespace: "default" });
        return items.some(({ reason, message }) => reason === "LogicalVolumeNotRemoved" && message?.includes(why()));
      });
      expect(lvmd.lvm.volumeOf("thin", `of-${other}`).name).toBe(`of-${other}`);
      await agent.client.delete("test/delete", LOGICAL_VOLUMES, { name: other });
    });

    it("that is a layout's member is left", async () => {
      const other = `snap-${randomUUID()}`;
      const tags = [`tidemark.dev/volume-uid=${other.slice("snap-".length)}`];
      await lvmd.lvm.make("thin", `of-${other}`, 16 * MIB, tags);
      await order(other, { deviceClass: "thin", volumeID: `of-${other}` });
      await orderedStatus(other);
      await volume.applyLayout({ backend: "lvm", members: members(`of-${other}`) });
      await ask(other, { state: "Removed" });
      await waitFor("the event", async () => {
        const { items } = await agent.client.list(EVENTS, { namespace: "default" });
        return items.some(({ message }) => message?.includes("is a FilesystemLayout's member"));
      });
      expect(lvmd.lvm.volumeOf("thin", `of-${other}`).name).toBe(`of-${other}`);
      await volume.applyLayout({ backend: "lvm", members: members(uid) });
      await agent.client.delete("test/delete", LOGICAL_VOLUMES, { name: other });
    });
  });

  it("leaves another node's alone", async () => {
    const name = `fs-${randomUUID()}`;
    const { metadata } = await order(name, { nodeName: "node-b" });
    const later = `fs-${randomUUID()}`;
    await order(later);
    await orderedStatus(later);
    expect(made(metadata.uid ?? "")).toBe(0);
    expect((await logicalVolume(name))?.status).toBeUndefined();
  });

  it("reports a volume of ours that nobody names, and never removes it", async () => {
    const tags = [`tidemark.dev/volume-uid=${randomUUID()}`];
    await lvmd.lvm.make("thick", "lost", 16 * MIB, tags);
    lvmd.setClass("thick", {});
    await waitFor("the event", async () => {
      const { items } = await agent.client.list(EVENTS, { namespace: "default" });
      return items.some(({ reason, message }) => reason === "LogicalVolumeOrphaned" && message?.includes("lost"));
    });
    const metrics = await freshMetrics(agent.metricsUrl);
    expect(metrics).toContain('tidemark_agent_orphaned_logical_volumes{device_class="thick"} 1');
    expect(lvmd.lvm.volumeOf("thick", "lost").name).toBe("lost");
  });

  it("makes no volume any more whose layout asks for its removal already", async () => {
    const unmadeUID = randomUUID();
    const unmade = volumeUnderTest(agent, unmadeUID, "1Gi");
    lvmd.refusals.set("CreateLV", { code: status.UNAVAILABLE, details: "busy" });
    const { metadata } = await order(unmade.handle);
    const volumeID = metadata.uid ?? "";
    await waitFor("an attempt", () => made(volumeID) > 0);
    const source = { logicalVolume: { name: unmade.handle, volumeID, deviceClass: "thick" } };
    await unmade.applyLayout({ backend: "lvm", members: [{ name: "member-0", state: "Removed", source }] });
    await waitFor("its removal", async () => (await unmade.layout()).status?.members?.[0]?.state === "Removed");
    lvmd.refusals.clear();
    const attempts = made(volumeID);
    await lookedAgain(unmade.handle);
    expect(made(volumeID)).toBe(attempts);
    expect(() => lvmd.lvm.volumeOf("thick", volumeID)).toThrow("not found");
  });

  it("removes neither where the layout asks for the removal of another volume than the node has", async () => {
    await volume.unstage();
    await volume.applyLayout({ backend: "lvm", members: members(randomUUID(), "Removed") });
    await waitFor("it to be said", async () =>
      ((await volume.layout()).status?.conditions ?? []).some(({ message }) => message.includes("neither is removed")),
    );
    expect(lvmd.lvm.volumeOf("thick", uid)).toBeDefined();
  });

  it("removes the volume with its layout's member, and never makes it again", async () => {
    await volume.applyLayout({ backend: "lvm", members: members(uid, "Removed") });
    await waitFor("its status", async () => (await volume.layout()).status?.members?.[0]?.state === "Removed");
    expect(() => lvmd.lvm.volumeOf("thick", uid)).toThrow("not found");
    lvmd.setClass("thick", {});
    const later = `fs-${randomUUID()}`;
    await order(later);
    await orderedStatus(later);
    expect(made(uid)).toBe(1);
  });

  it("spends a grant with the API server down, and not before it is sure of a reduction that nobody answered", async () => {
    const other = volumeUnderTest(agent, randomUUID(), "2Gi");
    const volumeID = (await order(other.handle, { size: "2Gi" })).metadata.uid ?? "";
    await orderedStatus(other.handle);
    const source = { logicalVolume: { name: other.handle, volumeID, deviceClass: "thick" } };
    const layout = { backend: "lvm" as const, members: [{ name: "member-0", source }] };
    await other.applyLayout(layout);
    await other.stage();
    for (const method of ["ReduceLV", "CancelReduce"])
      lvmd.refusals.set(method, { code: status.UNAVAILABLE, details: "gone" });
    await other.applyLayout({ ...layout, target: target("1Gi", "2Gi") });
    await waitFor("the unanswered reduction", () => lvmd.calls.some((call) => call.startsWith("ReduceLV")));
    await waitFor("its end", async () => (await other.layout()).status?.lastOperation?.outcome === "Failed");
    // More than can be available: the next reading crosses it.
    await other.applyGrant({ size: "3Gi", minAvailable: "6Gi", expiry: "2099-01-01T00:00:00Z", epoch: 1 });
    await waitFor("the crossing to be seen", () => agent.log().includes("minAvailable is crossed"));
    await agent.stopControlPlane();
    const callsSince = lvmd.calls.length;
    await waitFor("a look", () => lvmd.calls.slice(callsSince).some((call) => call.startsWith("CancelReduce")));
    expect(lvmd.lvm.volumeOf("thick", volumeID).sizeBytes).toBe(2 * GIB);
    lvmd.refusals.clear();
    await waitFor("the emergency", () => other.capacityBytes() === 3 * GIB);
    expect(lvmd.lvm.volumeOf("thick", volumeID).sizeBytes).toBe(3 * GIB);
  });
});
