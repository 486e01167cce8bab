// What the agent's node service refuses: what is not meant for this node, this pod or this path. On the simulated disk, which
// needs no root.
import { randomUUID } from "node:crypto";
import { existsSync, mkdirSync, rmSync, symlinkSync } from "node:fs";
import { dirname, join } from "node:path";
import { Metadata, type ServiceError, status } from "@grpc/grpc-js";
import { afterAll, beforeAll, describe, expect, it } from "@jest/globals";
import {
  VolumeCapability_AccessMode_Mode as Mode,
  type NodePublishVolumeRequest,
  type NodeStageVolumeRequest,
} from "../../../src/contracts/gen/csi/v1/csi.ts";
import { GIB } from "../../../src/contracts/quantities/quantity.ts";
import { blockCapability, mountCapability } from "../../builders/create-volume-request.ts";
import { type AgentUnderTest, startAgentUnderTest, type VolumeUnderTest, volumeUnderTest } from "./agent-under-test.ts";

type Outcome = { readonly code: status; readonly details: string; readonly response: unknown };

let agent: AgentUnderTest;
let volume: VolumeUnderTest;
beforeAll(async () => {
  agent = await startAgentUnderTest();
  await agent.startAgent({}, { storage: "simulated" });
  volume = volumeUnderTest(agent, randomUUID(), "1Gi");
  await volume.applyLayout();
  await volume.stage();
  await volume.publish();
});
afterAll(async () => {
  await agent.dispose();
});

function outcomeOf(call: (done: (error: ServiceError | null, response: unknown) => void) => unknown): Promise<Outcome> {
  return new Promise((resolve) =>
    call((error, response) => resolve({ code: error?.code ?? status.OK, details: error?.details ?? "", response })),
  );
}

const stage = (fields: Partial<NodeStageVolumeRequest>) => {
  const request = {
    volumeId: volume.handle,
    stagingTargetPath: volume.stagingPath,
    volumeCapability: mountCapability(),
    ...{ publishContext: {}, secrets: {}, volumeContext: {} },
  };
  return outcomeOf((done) => agent.nodeClient.nodeStageVolume({ ...request, ...fields }, new Metadata(), done));
};
const publish = (fields: Partial<NodePublishVolumeRequest>) => {
  const request = {
    volumeId: volume.handle,
    stagingTargetPath: volume.stagingPath,
    targetPath: volume.targetPath,
    volumeCapability: mountCapability(),
    readonly: false,
    ...{ publishContext: {}, secrets: {}, volumeContext: {} },
  };
  return outcomeOf((done) => agent.nodeClient.nodePublishVolume({ ...request, ...fields }, new Metadata(), done));
};
const stats = (volumeId: string, volumePath: string) =>
  outcomeOf((done) =>
    agent.nodeClient.nodeGetVolumeStats({ volumeId, volumePath, stagingTargetPath: "" }, new Metadata(), done),
  );
const podNamespace = (namespace: string) => ({ "csi.storage.k8s.io/pod.namespace": namespace });

describe("NodePublishVolume", () => {
  it("repeated, is OK", async () => {
    expect(await publish({})).toMatchObject({ code: status.OK });
    expect(await publish({ volumeContext: podNamespace("shop") })).toMatchObject({ code: status.OK });
  });

  it("shows a volume to no pod of another namespace than its claim's", async () => {
    const targetPath = join(dirname(volume.targetPath), "stolen");
    const refusal = await publish({ targetPath, volumeContext: podNamespace("thief") });
    expect(refusal.code).toBe(status.PERMISSION_DENIED);
    expect(refusal.details).toContain("was made for claim shop/data; a pod of namespace thief may not mount it");
    expect(existsSync(targetPath)).toBe(false);
  });

  it("gives a volume of one writer to no second pod, and to several of one node otherwise", async () => {
    const targetPath = join(dirname(volume.targetPath), "second");
    const single = await publish({ targetPath, volumeCapability: mountCapability("", Mode.SINGLE_NODE_SINGLE_WRITER) });
    expect(single).toMatchObject({
      code: status.FAILED_PRECONDITION,
      details: expect.stringContaining(`is published at ${volume.targetPath}`),
    });
    expect(existsSync(targetPath)).toBe(false);
    const several = await publish({ targetPath, volumeCapability: mountCapability("", Mode.SINGLE_NODE_MULTI_WRITER) });
    expect(several.code).toBe(status.OK);
    await agent.node.unpublish({ volumeId: volume.handle, targetPath });
  });

  it.each<[string, () => Partial<NodePublishVolumeRequest>, status, string]>([
    ["no volume", () => ({ volumeId: "" }), status.INVALID_ARGUMENT, "volume id is missing"],
    ["an id that climbs", () => ({ volumeId: "fs-../../etc" }), status.NOT_FOUND, "fs- and a UUID"],
    ["a volume of another node", () => ({ volumeId: `fs-${randomUUID()}` }), status.NOT_FOUND, "no FilesystemLayout"],
    ["a target elsewhere", () => ({ targetPath: "/etc/mount" }), status.INVALID_ARGUMENT, "kubelet's directory"],
    ["a staging path elsewhere", () => ({ stagingTargetPath: "/etc" }), status.INVALID_ARGUMENT, "kubelet's directory"],
    ["no capability", () => ({ volumeCapability: undefined }), status.INVALID_ARGUMENT, "volume capability"],
    [
      "a forged PersistentVolume",
      () => ({ volumeContext: { "tidemark.dev/volume-uid": randomUUID() } }),
      status.INVALID_ARGUMENT,
      "it was forged",
    ],
    [
      "an inline volume",
      () => ({ volumeContext: { "csi.storage.k8s.io/ephemeral": "true" } }),
      status.INVALID_ARGUMENT,
      "generic ephemeral volume",
    ],
    [
      "another staging path",
      () => ({ stagingTargetPath: join(dirname(volume.stagingPath), "other") }),
      status.FAILED_PRECONDITION,
      "not at",
    ],
  ])("refuses %s", async (_what, fields, code, text) => {
    expect(await publish(fields())).toMatchObject({ code, details: expect.stringContaining(text) });
  });

  it("follows no link out of kubelet's directory", async () => {
    const outside = join(agent.directory, "outside");
    mkdirSync(outside);
    symlinkSync(outside, join(agent.directory, "kubelet/link"));
    const refusal = await publish({ targetPath: join(agent.directory, "kubelet/link/mount") });
    expect(refusal.code).toBe(status.INVALID_ARGUMENT);
    expect(existsSync(join(outside, "mount"))).toBe(false);
  });
});

describe("NodeStageVolume", () => {
  it("refuses another filesystem than the volume has, and raw block", async () => {
    expect(await stage({ volumeCapability: mountCapability("xfs") })).toMatchObject({
      code: status.INVALID_ARGUMENT,
      details: expect.stringContaining("is btrfs, not xfs"),
    });
    expect(await stage({ volumeCapability: blockCapability() })).toMatchObject({
      code: status.INVALID_ARGUMENT,
      details: expect.stringContaining("has volumeMode Filesystem, and the request has Block"),
    });
  });
});

describe("NodeGetVolumeStats", () => {
  it("answers for the pod's path and the staging path, with the condition", async () => {
    for (const path of [volume.targetPath, volume.stagingPath]) {
      const { code, response } = await stats(volume.handle, path);
      expect(code).toBe(status.OK);
      expect(response).toMatchObject({ usage: [{ total: GIB }], volumeCondition: { abnormal: false } });
    }
  });

  it("is NOT_FOUND where the volume is not", async () => {
    for (const path of ["some/path", "/etc", join(dirname(volume.targetPath), "nothing")])
      expect(await stats(volume.handle, path)).toMatchObject({ code: status.NOT_FOUND });
    expect(await stats(`fs-${randomUUID()}`, volume.targetPath)).toMatchObject({ code: status.NOT_FOUND });
  });
});

describe("NodeUnpublishVolume", () => {
  it("is OK for a pod whose directory is gone already", async () => {
    const podDirectory = join(agent.directory, "kubelet/pods/gone/volumes");
    mkdirSync(podDirectory, { recursive: true });
    rmSync(dirname(podDirectory), { recursive: true });
    await agent.node.unpublish({ volumeId: volume.handle, targetPath: join(podDirectory, "mount") });
  });
});
