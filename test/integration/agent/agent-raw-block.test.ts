// Raw block volumes (volumeMode: Block) on the agent's own process: a pod's device from its first write to its removal, on a fake lvmd's
// loop devices, which grow as logical volumes do.
import { execFileSync } from "node:child_process";
import { randomUUID } from "node:crypto";
import { closeSync, existsSync, mkdirSync, openSync, readdirSync, readFileSync, readSync, writeSync } from "node:fs";
import { join } from "node:path";
import { type ServiceError, status } from "@grpc/grpc-js";
import { afterAll, beforeAll, expect, it } from "@jest/globals";
import { mountsUnder } from "../../../demo/show/run/mount-table.ts";
import { blockDeviceAt, blockSizeBytes } from "../../../src/agent/storage/filesystem/devices-and-mounts.ts";
import { VolumeCapability_AccessMode_Mode as Mode } from "../../../src/contracts/gen/csi/v1/csi.ts";
import { FILESYSTEM_LAYOUTS, type FilesystemLayoutSpec } from "../../../src/contracts/kinds/filesystem-layout.ts";
import { LOGICAL_VOLUMES } from "../../../src/contracts/kinds/logical-volume.ts";
import { API_VERSION } from "../../../src/contracts/names.ts";
import { GIB } from "../../../src/contracts/quantities/quantity.ts";
import { blockCapability, mountCapability } from "../../builders/create-volume-request.ts";
import { type FakeLvmd, startFakeLvmd } from "../../fakes/fake-lvmd.ts";
import { describeReal, STACK_PARTS } from "../../harness/real-parts.ts";
import {
  type AgentUnderTest,
  NODE_NAME,
  startAgentUnderTest,
  type VolumeUnderTest,
  volumeUnderTest,
  waitFor,
} from "./agent-under-test.ts";

const PATTERN = Buffer.from("kept through everything".padEnd(4096, "."));

describeReal("a raw block volume on its node", STACK_PARTS, () => {
  let agent: AgentUnderTest;
  let lvmd: FakeLvmd;
  let volume: VolumeUnderTest;
  let volumeID = "";
  const volumeUID = randomUUID();

  beforeAll(async () => {
    agent = await startAgentUnderTest();
    const directory = join(agent.directory, "lvmd");
    mkdirSync(directory);
    lvmd = await startFakeLvmd(directory);
    volume = volumeUnderTest(agent, volumeUID, "1Gi");
    await startAgent();
    const made = await agent.client.create("test/logical-volume", LOGICAL_VOLUMES, {
      apiVersion: API_VERSION,
      kind: "LogicalVolume",
      metadata: { name: volume.handle },
      spec: { nodeName: NODE_NAME, deviceClass: "thick", size: "1Gi", volumeMode: "Block" },
    });
    volumeID = made.metadata.uid ?? "";
    const isMade = async () =>
      (await agent.client.get(LOGICAL_VOLUMES, { name: volume.handle }))?.status?.volumeID !== undefined;
    await waitFor("the logical volume", isMade);
    await applyLayout();
    mkdirSync(volume.stagingPath, { recursive: true });
    mkdirSync(join(volume.targetPath, ".."), { recursive: true });
  });
  afterAll(async () => {
    await agent.killAgent();
    await lvmd.stop();
    await agent.dispose();
  });

  const startAgent = (): Promise<void> => agent.startAgent({}, { "lvmd-socket": lvmd.socketPath });
  const applyLayout = (
    change: Partial<FilesystemLayoutSpec> = {},
    state: "Present" | "Removed" = "Present",
  ): Promise<void> => {
    const source = { logicalVolume: { name: volume.handle, volumeID, deviceClass: "thick" } };
    const members = [{ name: "m0", size: "1Gi", state, source }];
    const [fsType, volumeMode] = [undefined, "Block" as const];
    return volume.applyLayout({ backend: "lvm", fsType, volumeMode, members, ...change });
  };
  /** A mode never changes, but a layout may be made again with another one. */
  const remakeLayout = async (...change: Parameters<typeof applyLayout>): Promise<void> => {
    await agent.client.delete("test/layout", FILESYSTEM_LAYOUTS, { name: volume.handle });
    await applyLayout(...change);
  };
  const request = (volumeCapability: ReturnType<typeof blockCapability | typeof mountCapability>) => ({
    ...{ volumeId: volume.handle, stagingTargetPath: volume.stagingPath, volumeCapability },
    ...{ publishContext: {}, secrets: {}, volumeContext: {} },
  });
  const stage = () => agent.node.stage(request(blockCapability()));
  const publish = (targetPath = volume.targetPath, mode = Mode.SINGLE_NODE_WRITER) =>
    agent.node.publish({ ...request(blockCapability(mode)), targetPath, readonly: false });
  const stats = (volumePath: string) =>
    new Promise((resolve, reject) => {
      const asked = { volumeId: volume.handle, volumePath, stagingTargetPath: volume.stagingPath };
      agent.nodeClient.nodeGetVolumeStats(asked, (error: ServiceError | null, response) =>
        error === null ? resolve(response.usage) : reject(error),
      );
    });
  const shown = (path = volume.targetPath) => blockDeviceAt(path);
  const shownBytes = (): number => {
    const device = shown();
    return device === undefined ? 0 : blockSizeBytes(device);
  };
  const readBack = (atBytes: number): Buffer => {
    const file = openSync(volume.targetPath, "r");
    const read = Buffer.alloc(PATTERN.length);
    readSync(file, read, 0, read.length, atBytes);
    closeSync(file);
    return read;
  };
  const write = (atBytes: number): void => {
    const file = openSync(volume.targetPath, "rs+");
    writeSync(file, PATTERN, 0, PATTERN.length, atBytes);
    closeSync(file);
  };
  const lastOperation = async () => (await volume.layout()).status?.lastOperation;
  const target = (size: string, from: string) => ({ size, from, epoch: 1, decidedAt: new Date().toISOString() });
  const mounts = (): string[] => mountsUnder(join(agent.directory, "kubelet"));

  it("is tagged as one when it is made", () => {
    expect(lvmd.lvm.volumeOf("thick", volumeID).tags).toEqual([
      `tidemark.dev/volume-uid=${volumeUID}`,
      "tidemark.dev/volume-mode=Block",
    ]);
  });

  it("is never staged as a filesystem", async () => {
    const refused = {
      code: status.INVALID_ARGUMENT,
      details: expect.stringContaining("has volumeMode Block, and the request has Filesystem"),
    };
    await expect(agent.node.stage(request(mountCapability()))).rejects.toMatchObject(refused);
    expect(mounts()).toEqual([]);
  });

  it("is the pod's device, with nothing on it, however often it is staged and published", async () => {
    for (let call = 0; call < 3; call += 1) await stage();
    for (let call = 0; call < 3; call += 1) await publish();
    expect(shown()?.path).toBe(lvmd.lvm.volumeOf("thick", volumeID).path);
    expect(mounts().sort()).toEqual([join(volume.stagingPath, "device"), volume.targetPath].sort());
    expect(execFileSync("wipefs", ["--noheadings", volume.targetPath], { encoding: "utf8" })).toBe("");
    expect(shownBytes()).toBe(GIB);
    write(0);
    write(GIB - PATTERN.length);
  });

  it("tells its size and no fill level", async () => {
    const usage = [expect.objectContaining({ total: GIB, used: 0, available: 0 })];
    expect(await stats(volume.targetPath)).toEqual(usage);
    await waitFor("its status", async () => (await volume.layout()).status?.mounted === true);
    const { status: told } = await volume.layout();
    expect(told).toMatchObject({ members: [{ name: "m0", size: "1Gi", state: "Present" }] });
    expect(told?.fsid).toBeUndefined();
    expect(told?.conditions?.find(({ type }) => type === "Ready")).toMatchObject({
      status: "True",
      message: "1Gi, staged as a raw block device",
    });
    expect(agent.samples).toEqual([]);
  });

  it("grows under whoever has it open, and nothing of it is lost", async () => {
    const open = openSync(volume.targetPath, "r");
    await applyLayout({ target: target("2Gi", "1Gi") });
    await waitFor("the extend", async () => (await lastOperation())?.reached === "2Gi");
    expect(await lastOperation()).toMatchObject({ kind: "Extend", outcome: "Succeeded" });
    expect(readSync(open, Buffer.alloc(512), 0, 512, 2 * GIB - 512)).toBe(512);
    closeSync(open);
    expect(shownBytes()).toBe(2 * GIB);
    expect(readBack(0)).toEqual(PATTERN);
    expect(readBack(GIB - PATTERN.length)).toEqual(PATTERN);
    expect(await stats(volume.targetPath)).toEqual([expect.objectContaining({ total: 2 * GIB })]);
  });

  it("is never made smaller", async () => {
    await applyLayout({ target: target("1Gi", "2Gi") });
    await waitFor("the answer", async () => (await lastOperation())?.kind === "Shrink");
    expect(await lastOperation()).toMatchObject({ outcome: "FloorReached", reached: "2Gi" });
    expect(shownBytes()).toBe(2 * GIB);
    expect(lvmd.lvm.volumeOf("thick", volumeID).sizeBytes).toBe(2 * GIB);
  });

  it("stays as it is through a restart of the agent, and grows after it", async () => {
    const before = mounts();
    await agent.killAgent();
    await startAgent();
    await applyLayout({ target: target("3Gi", "2Gi") });
    await waitFor("the extend", async () => (await lastOperation())?.reached === "3Gi");
    await stage();
    await publish();
    expect(mounts()).toEqual(before);
    expect(shownBytes()).toBe(3 * GIB);
    expect(readBack(0)).toEqual(PATTERN);
  });

  it("is found again where the node has lost its records", async () => {
    const records = join(agent.directory, "state", "volumes");
    await agent.killAgent();
    execFileSync("rm", ["-r", records]);
    await startAgent();
    const path = join(records, `${volume.handle}.json`);
    await waitFor("its record", () => existsSync(path));
    const record: unknown = JSON.parse(readFileSync(path, "utf8"));
    expect(record).toMatchObject({ volumeMode: "Block", stagingPath: volume.stagingPath });
    expect(readBack(0)).toEqual(PATTERN);
  });

  it("is published to one pod alone where it may have one writer, whatever kubelet binds by itself", async () => {
    const [other, kubelets] = [`${volume.targetPath}-other`, join(agent.directory, "kubelet/plugins/dev/pod")];
    mkdirSync(join(kubelets, ".."), { recursive: true });
    execFileSync("touch", [kubelets]);
    execFileSync("mount", ["--bind", volume.targetPath, kubelets]);
    await publish(volume.targetPath, Mode.SINGLE_NODE_SINGLE_WRITER);
    await expect(publish(other, Mode.SINGLE_NODE_SINGLE_WRITER)).rejects.toMatchObject({
      code: status.FAILED_PRECONDITION,
      details: expect.stringContaining("one writer"),
    });
    expect(existsSync(other)).toBe(false);
    execFileSync("umount", [kubelets]);
  });

  it("is published no more where its staging path shows it no more, until it is staged anew", async () => {
    const [other, staged] = [`${volume.targetPath}-other`, join(volume.stagingPath, "device")];
    const refused = { code: status.FAILED_PRECONDITION, details: expect.stringContaining("kubelet stages it again") };
    execFileSync("umount", [staged]);
    await expect(publish(other)).rejects.toMatchObject(refused);
    execFileSync("mount", ["--bind", "/dev/null", staged]);
    await expect(publish(other)).rejects.toMatchObject(refused);
    expect(existsSync(other)).toBe(false);
    execFileSync("umount", [staged]);
    await stage();
    await publish(other);
    expect(shown(other)?.path).toBe(shown()?.path);
    await agent.node.unpublish({ volumeId: volume.handle, targetPath: other });
  });

  it("is not unstaged while it is published, or held by somebody", async () => {
    const busy = { details: expect.stringContaining("still shown at") };
    await expect(volume.unstage()).rejects.toMatchObject(busy);
    expect(readBack(0)).toEqual(PATTERN);
    await volume.unpublish();
    await volume.unpublish();
    expect(existsSync(volume.targetPath)).toBe(false);
    const { path } = lvmd.lvm.volumeOf("thick", volumeID);
    const foreign = join(agent.directory, "foreign");
    mkdirSync(foreign);
    execFileSync("mkfs.ext4", ["-q", "-F", path]);
    execFileSync("mount", [path, foreign]);
    await expect(volume.unstage()).rejects.toMatchObject({ details: expect.stringContaining("in use") });
    execFileSync("umount", [foreign]);
    await volume.unstage();
    await volume.unstage();
    expect(readdirSync(volume.stagingPath)).toEqual([]);
    expect(mounts()).toEqual([]);
  });

  it("is none that was not made for it, whatever the layout names", async () => {
    const { tags } = lvmd.lvm.volumeOf("thick", volumeID);
    const untagged = tags.filter((tag) => !tag.startsWith("tidemark.dev/volume-uid="));
    lvmd.lvm.retag(lvmd.lvm.volumeOf("thick", volumeID), untagged);
    await expect(stage()).rejects.toMatchObject({ details: expect.stringContaining("has no tag of") });
    lvmd.lvm.retag(lvmd.lvm.volumeOf("thick", volumeID), tags);
  });

  it("is not formatted, nor mounted with what its pod made on it, by a layout that has lost its mode", async () => {
    await agent.killAgent();
    execFileSync("rm", ["-r", join(agent.directory, "state", "volumes")]);
    await remakeLayout({ fsType: "ext4", volumeMode: undefined });
    await startAgent();
    const { path } = lvmd.lvm.volumeOf("thick", volumeID);
    for (const prepare of [() => {}, () => execFileSync("wipefs", ["--all", path])]) {
      prepare();
      const before = execFileSync("wipefs", ["--noheadings", path], { encoding: "utf8" });
      await expect(agent.node.stage(request(mountCapability()))).rejects.toMatchObject({
        details: expect.stringContaining("was made with Block, not"),
      });
      expect(execFileSync("wipefs", ["--noheadings", path], { encoding: "utf8" })).toBe(before);
    }
  });

  it("is removed with its data when its layout says so", async () => {
    await agent.killAgent();
    execFileSync("rm", ["-rf", join(agent.directory, "state", "volumes")]);
    await remakeLayout({}, "Removed");
    await startAgent();
    await waitFor("the end", async () => (await volume.layout()).status?.members?.[0]?.state === "Removed");
    expect(lvmd.lvm.volumes()).toEqual([]);
  });

  it("that begins as a copy has its source's bytes to the last one, a filesystem's UUID included", async () => {
    const madeOf = async (uid: string, source: { source?: string }) => {
      const spec = { nodeName: NODE_NAME, deviceClass: "thin", size: "64Mi", volumeMode: "Block" as const, ...source };
      const object = { apiVersion: API_VERSION, kind: "LogicalVolume" as const, metadata: { name: `fs-${uid}` }, spec };
      const { metadata } = await agent.client.create("test/logical-volume", LOGICAL_VOLUMES, object);
      const live = () => agent.client.get(LOGICAL_VOLUMES, { name: `fs-${uid}` });
      await waitFor("the logical volume", async () => (await live())?.status?.volumeID !== undefined);
      return lvmd.lvm.volumeOf("thin", metadata.uid ?? "");
    };
    const [sourceUID, copyUID] = [randomUUID(), randomUUID()];
    const source = await madeOf(sourceUID, {});
    execFileSync("mkfs.ext4", ["-q", "-F", source.path]);
    const made = await madeOf(copyUID, { source: `fs-${sourceUID}` });
    const copy = volumeUnderTest(agent, copyUID, "64Mi");
    const logicalVolume = { name: copy.handle, volumeID: made.name, deviceClass: "thin" };
    const members = [{ name: "m0", size: "64Mi", state: "Present" as const, source: { logicalVolume } }];
    await copy.applyLayout({ backend: "lvm", fsType: undefined, volumeMode: "Block", members });
    mkdirSync(copy.stagingPath, { recursive: true });
    const before = readFileSync(source.path);
    await agent.node.stage({
      ...request(blockCapability()),
      volumeId: copy.handle,
      stagingTargetPath: copy.stagingPath,
    });
    expect(blockDeviceAt(join(copy.stagingPath, "device"))?.path).toBe(made.path);
    expect(readFileSync(made.path).equals(before)).toBe(true);
    expect(lvmd.lvm.volumeOf("thin", made.name).tags).toEqual(made.tags);
    await copy.unstage();
  });
});
