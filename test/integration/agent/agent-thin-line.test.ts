// The agent's main job on a real btrfs, from kubelet's first call to the last: stage, grow, shrink, sample, let go, delete.
import { randomUUID } from "node:crypto";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "@jest/globals";
import { FILESYSTEMS } from "../../../src/contracts/kinds/filesystem.ts";
import type { FilesystemLayout } from "../../../src/contracts/kinds/filesystem-layout.ts";
import { EVENTS, NAMESPACES } from "../../../src/contracts/kubernetes/resources.ts";
import { API_VERSION } from "../../../src/contracts/names.ts";
import { GIB, MIB } from "../../../src/contracts/quantities/quantity.ts";
import { describeReal, STACK_PARTS } from "../../harness/real-parts.ts";
import {
  type AgentUnderTest,
  startAgentUnderTest,
  type VolumeUnderTest,
  volumeUnderTest,
  waitFor,
} from "./agent-under-test.ts";

const target = (size: string, from: string, epoch = 1) => ({ size, from, epoch, decidedAt: new Date().toISOString() });
const condition = (layout: FilesystemLayout, type: string) =>
  layout.status?.conditions?.find((one) => one.type === type);

describeReal("an agent with one volume", STACK_PARTS, () => {
  let agent: AgentUnderTest;
  let volume: VolumeUnderTest;
  const lastOperation = async () => (await volume.layout()).status?.lastOperation;

  beforeAll(async () => {
    agent = await startAgentUnderTest();
    volume = volumeUnderTest(agent, randomUUID(), "1Gi");
    await agent.startAgent();
    await agent.client.apply(
      "test/namespace",
      NAMESPACES,
      { apiVersion: "v1", kind: "Namespace", metadata: { name: "shop" } },
      { fieldManager: "test" },
    );
    await agent.client.create("test/filesystem", FILESYSTEMS, {
      apiVersion: API_VERSION,
      kind: "Filesystem",
      metadata: { namespace: "shop", name: "data" },
      spec: {},
    });
    await volume.applyLayout();
  });
  afterAll(async () => {
    await agent.dispose();
  });

  it("says that the member is yet to be made before a pod uses it", async () => {
    await waitFor("the first status", async () => (await volume.layout()).status?.conditions !== undefined);
    const layout = await volume.layout();
    expect(condition(layout, "Ready")).toMatchObject({ status: "False", reason: "Provisioning" });
    expect(condition(layout, "Stalled")).toMatchObject({ status: "False" });
  });

  it("makes and mounts the filesystem when kubelet stages it, and again does nothing", async () => {
    await volume.stage();
    expect(volume.capacityBytes()).toBe(GIB);
    await volume.stage();
    await waitFor("Ready", async () => condition(await volume.layout(), "Ready")?.status === "True");
    const { status } = await volume.layout();
    expect(status).toMatchObject({
      nodeName: "node-a",
      members: [{ name: "member-0", size: "1Gi", state: "Present" }],
    });
  });

  it("shows the filesystem in the pod's directory", async () => {
    await volume.publish();
    await volume.publish();
    writeFileSync(join(volume.targetPath, "file"), "written by the pod");
    expect(readFileSync(join(volume.stagingPath, "file"), "utf8")).toBe("written by the pod");
  });

  it("streams samples to the engine", async () => {
    const whole = () => agent.samples.find(({ sizeBytes, nodeFreeBytes }) => sizeBytes > 0 && nodeFreeBytes > 0);
    await waitFor("a sample with all that the node knows", () => whole() !== undefined);
    expect(whole()).toMatchObject({
      volumeHandle: volume.handle,
      ...{ sizeBytes: GIB, capacityBytes: GIB, operationInProgress: false },
    });
  });

  it("extends to the target, reports it, and streams the larger capacity", async () => {
    await volume.applyLayout({ target: target("2Gi", "1Gi") });
    await waitFor("the extend", async () => (await lastOperation())?.kind === "Extend");
    expect(await lastOperation()).toMatchObject({ outcome: "Succeeded", from: "1Gi", to: "2Gi", reached: "2Gi" });
    expect(volume.capacityBytes()).toBe(2 * GIB);
    await waitFor("a sample of 2Gi", () => agent.samples.at(-1)?.capacityBytes === 2 * GIB);
    expect((await volume.layout()).status?.operation).toBeUndefined();
  });

  it("tells people on the Filesystem, by an Event", async () => {
    const filesystem = await agent.client.get(FILESYSTEMS, { namespace: "shop", name: "data" });
    const ended = async () =>
      (await agent.client.list(EVENTS)).items.find(({ reason }) => reason === "ExtendSucceeded");
    await waitFor("the Event", async () => (await ended()) !== undefined);
    expect(await ended()).toMatchObject({
      involvedObject: { kind: "Filesystem", name: "data", namespace: "shop", uid: filesystem?.metadata.uid },
      message: "1Gi → 2Gi",
    });
  });

  it("shrinks to the target in steps, and keeps the data", async () => {
    const bytes = Buffer.alloc(64 * MIB, "tide");
    writeFileSync(join(volume.stagingPath, "data"), bytes);
    await volume.applyLayout({ target: target("1536Mi", "2Gi") });
    await waitFor("the shrink", async () => (await lastOperation())?.kind === "Shrink");
    expect(await lastOperation()).toMatchObject({ outcome: "Succeeded", reached: "1536Mi" });
    expect(volume.capacityBytes()).toBe(1536 * MIB);
    expect(readFileSync(join(volume.stagingPath, "data")).equals(bytes)).toBe(true);
  });

  it("does not shrink when the size is no longer the one that was decided on", async () => {
    await volume.applyLayout({ target: target("1Gi", "2Gi") });
    const generation = (await volume.layout()).metadata.generation;
    await waitFor("the spec to be seen", async () => (await volume.layout()).status?.observedGeneration === generation);
    const { operation, lastOperation } = (await volume.layout()).status ?? {};
    expect(operation).toBeUndefined();
    expect(lastOperation?.reached).toBe("1536Mi");
    expect(volume.capacityBytes()).toBe(1536 * MIB);
  });

  it("exposes the filesystem's figures with the claim's name", async () => {
    const capacity = `tidemark_filesystem_capacity_bytes{namespace="shop",persistentvolumeclaim="data"} ${1536 * MIB}`;
    const metrics = async () => (await fetch(agent.metricsUrl)).text();
    await waitFor("a reading of the new size", async () => (await metrics()).includes(`${capacity}\n`));
    expect(await metrics()).toContain(
      'tidemark_filesystem_operations_total{kind="Shrink",outcome="Succeeded",emergency="false"} 1',
    );
  });

  it("lets go of the volume and keeps its data for the next pod", async () => {
    await volume.unpublish();
    await volume.unpublish();
    expect(existsSync(volume.targetPath)).toBe(false);
    await volume.unstage();
    await volume.unstage();
    expect(existsSync(join(volume.stagingPath, "file"))).toBe(false);
    await volume.stage();
    expect(volume.capacityBytes()).toBe(1536 * MIB);
    expect(readFileSync(join(volume.stagingPath, "file"), "utf8")).toBe("written by the pod");
    await volume.unstage();
  });

  it("deletes the member when the layout says Removed, and not before it is unmounted", async () => {
    const [member] = (await volume.layout()).spec.members ?? [];
    if (member === undefined) throw new Error("no member");
    await volume.stage();
    await volume.applyLayout({ members: [{ ...member, state: "Removed" }] });
    const generation = (await volume.layout()).metadata.generation;
    await waitFor("the spec to be seen", async () => (await volume.layout()).status?.observedGeneration === generation);
    expect(existsSync(volume.memberPath)).toBe(true);
    await volume.unstage();
    await waitFor("Removed", async () => (await volume.layout()).status?.members?.[0]?.state === "Removed");
    expect(existsSync(volume.memberPath)).toBe(false);
  });
});
