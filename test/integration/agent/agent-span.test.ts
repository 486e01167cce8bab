// The agent's main job on a filesystem of several members, each a real block device of another CSI driver: stage, add, grow in
// place, remove, survive, let go.

import { execFileSync } from "node:child_process";
import { randomUUID } from "node:crypto";
import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { status } from "@grpc/grpc-js";
import { afterAll, beforeAll, expect, it } from "@jest/globals";
import {
  FILESYSTEM_LAYOUTS,
  type FilesystemLayout,
  type FilesystemLayoutStatus,
  type MemberSpec,
} from "../../../src/contracts/kinds/filesystem-layout.ts";
import { API_VERSION, FIELD_MANAGERS } from "../../../src/contracts/names.ts";
import { GIB, MIB, parseQuantity } from "../../../src/contracts/quantities/quantity.ts";
import { describeReal, STACK_PARTS } from "../../harness/real-parts.ts";
import { type AgentUnderTest, NODE_NAME, startAgentUnderTest, waitFor } from "./agent-under-test.ts";
import {
  attached,
  createSpanParts,
  DRIVER,
  larger,
  leaving,
  type SpanParts,
  type SpanUnderTest,
  spanUnderTest,
} from "./span-under-test.ts";

const target = (size: string, from: string, epoch = 1) => ({ size, from, epoch, decidedAt: new Date().toISOString() });
type Device = Pick<NonNullable<FilesystemLayoutStatus["members"]>[number], "devid" | "deviceUUID">;
const condition = (layout: FilesystemLayout, type: string) =>
  layout.status?.conditions?.find((one) => one.type === type);

describeReal("an agent with a span", STACK_PARTS, () => {
  let agent: AgentUnderTest;
  let parts: SpanParts;
  let span: SpanUnderTest;
  let reports: Reports;
  let m0: MemberSpec;
  let m1: MemberSpec;
  let m2: MemberSpec;
  const lastOperation = async () => (await span.layout()).status?.lastOperation;
  const reconciling = async () => condition(await span.layout(), "Reconciling");
  const deviceOf = ({ name }: MemberSpec) => parts.driver.deviceOf(`${span.handle}-${name}`);
  const seen = async () => {
    const { generation } = (await span.layout()).metadata;
    await waitFor("the spec to be seen", async () => (await span.layout()).status?.observedGeneration === generation);
  };

  beforeAll(async () => {
    agent = await startAgentUnderTest();
    parts = await createSpanParts(agent);
    span = spanUnderTest(agent, parts, randomUUID());
    reports = recordReports(agent, span.handle);
    await agent.startAgent({}, parts.flags);
  });
  afterAll(async () => {
    reports.stop();
    await parts.close();
    await agent.dispose();
  });

  it("touches no device of a member that is not attached, and says what it waits for when kubelet asks", async () => {
    m0 = span.member("m0", GIB, "on its way");
    await span.applyLayout({ members: [m0] });
    const staging = span.stage();
    await seen();
    expect(condition(await span.layout(), "Ready")).toMatchObject({ status: "False", reason: "Provisioning" });
    expect(parts.driver.calls).toEqual([]);
    m0 = attached(m0);
    const said: (boolean | undefined)[] = [];
    parts.driver.before.set("NodeStageVolume", async () => void said.push((await span.layout()).status?.mounted));
    await span.applyLayout({ members: [m0] });
    await staging; // It has waited for the layout to say so.
    parts.driver.before.clear();
    expect(span.capacityBytes()).toBe(GIB);
    // Whoever would unplug the member knew by then that it is in use here.
    expect(said).toEqual([true]);
  });

  it("says what the filesystem is made of", async () => {
    await waitFor("Ready", async () => condition(await span.layout(), "Ready")?.status === "True");
    expect((await span.layout()).status).toMatchObject({
      nodeName: NODE_NAME,
      mounted: true,
      members: [{ name: "m0", devid: 1, size: "1Gi", state: "Present" }],
    });
    expect((await span.layout()).status?.members?.[0]?.deviceUUID).toMatch(/^[0-9a-f-]{36}$/);
  });

  it("knows no span on the other driver's socket", async () => {
    const request = { volumeId: span.handle, volumePath: span.stagingPath };
    await expect(
      new Promise((resolve, reject) =>
        agent.nodeClient.nodeGetVolumeStats({ ...request, stagingTargetPath: "" }, (error, stats) =>
          error === null ? resolve(stats) : reject(error),
        ),
      ),
    ).rejects.toMatchObject({ code: status.NOT_FOUND });
  });

  it("shows the filesystem in the pod's directory, and measures it", async () => {
    await span.publish();
    writeFileSync(join(span.targetPath, "file"), "written by the pod");
    expect(readFileSync(join(span.stagingPath, "file"), "utf8")).toBe("written by the pod");
    const sample = () => agent.samples.find(({ volumeHandle }) => volumeHandle === span.handle);
    await waitFor("a sample", () => sample() !== undefined);
    expect(sample()).toMatchObject({ sizeBytes: GIB, capacityBytes: GIB });
  });

  it("waits with an extend for a member that is on its way, and names it", async () => {
    m1 = span.member("m1", 2 * GIB, "on its way");
    await span.applyLayout({ members: [m0, m1], target: target("3Gi", "1Gi") });
    await waitFor("what it waits for", async () => (await reconciling())?.reason === "WaitingForMember");
    expect(await reconciling()).toMatchObject({
      status: "True",
      message: expect.stringContaining(
        `member m1 (claim ${span.handle}-m1 is not attached to this node by ${DRIVER} yet)`,
      ),
    });
    expect((await span.layout()).status?.operation).toBeUndefined();
    expect(span.capacityBytes()).toBe(GIB);
  });

  it("adds the member once it is attached, and reports it", async () => {
    const { target: same } = (await span.layout()).spec;
    m1 = attached(m1);
    await span.applyLayout({ members: [m0, m1], target: same });
    await waitFor("the extend", async () => (await lastOperation())?.kind === "Extend");
    expect(await lastOperation()).toMatchObject({ outcome: "Succeeded", from: "1Gi", to: "3Gi", reached: "3Gi" });
    expect(span.capacityBytes()).toBe(3 * GIB);
    await waitFor("both members", async () => (await span.memberStates()).length === 2);
    expect(await span.memberStates()).toEqual(["m0 1Gi Present", "m1 2Gi Present"]);
    await waitFor("a sample of 3Gi", () => agent.samples.at(-1)?.capacityBytes === 3 * GIB);
  });

  it("grows a member in place when a larger one is asked for, and its volume has become larger", async () => {
    const wanted = target("4Gi", "3Gi");
    m0 = larger(m0, "2Gi", "asked for");
    await span.applyLayout({ members: [m0, m1], target: wanted });
    await waitFor("what it waits for", async () => (await reconciling())?.reason === "WaitingForMember");
    expect(await reconciling()).toMatchObject({
      message: expect.stringContaining(`the volume of claim ${span.handle}-m0 has 1Gi of the 2Gi asked for`),
    });
    parts.driver.growVolume(`${span.handle}-m0`, 2 * GIB);
    m0 = larger(m0, "2Gi", "done");
    await span.applyLayout({ members: [m0, m1], target: wanted });
    await waitFor("4Gi", async () => (await lastOperation())?.reached === "4Gi");
    expect(span.capacityBytes()).toBe(4 * GIB);
    await waitFor("the members", async () => (await span.memberStates())[0] === "m0 2Gi Present");
  });

  it("extends with the members that are there, and does the rest when the others have come", async () => {
    m2 = span.member("m2", 2 * GIB, "on its way");
    parts.driver.growVolume(`${span.handle}-m0`, 3 * GIB);
    m0 = larger(m0, "3Gi", "done");
    const wanted = target("7Gi", "4Gi");
    await span.applyLayout({ members: [m0, m1, m2], target: wanted });
    await waitFor("5Gi", async () => (await lastOperation())?.reached === "5Gi");
    m2 = attached(m2);
    await span.applyLayout({ members: [m0, m1, m2], target: wanted });
    await waitFor("7Gi", async () => (await lastOperation())?.reached === "7Gi");
    expect(await lastOperation()).toMatchObject({ outcome: "Succeeded", decidedAt: wanted.decidedAt });
    expect(span.capacityBytes()).toBe(7 * GIB);
  });

  it("takes a member out when the layout says Removed with a lower target, and keeps the data", async () => {
    const bytes = Buffer.alloc(64 * MIB, "tide");
    writeFileSync(join(span.stagingPath, "data"), bytes);
    await span.applyLayout({ members: [m0, m1, leaving(m2)], target: target("5Gi", "7Gi") });
    await waitFor("the shrink", async () => (await lastOperation())?.kind === "Shrink");
    expect(await lastOperation()).toMatchObject({ outcome: "Succeeded", from: "7Gi", to: "5Gi", reached: "5Gi" });
    expect(span.capacityBytes()).toBe(5 * GIB);
    expect(readFileSync(join(span.stagingPath, "data")).equals(bytes)).toBe(true);
    await waitFor("Removed", async () => (await span.memberStates()).includes("m2 2Gi Removed"));
    expect(await span.memberStates()).toEqual(["m0 3Gi Present", "m1 2Gi Present", "m2 2Gi Removed"]);
    expect(deviceOf(m2)).toBeUndefined();
    await span.applyLayout({ members: [m0, m1], target: target("5Gi", "5Gi") });
    await waitFor("m2 to be forgotten", async () => (await span.memberStates()).length === 2);
  });

  it("stays ready while the driver does not take a removed member back, and tells why", async () => {
    const m4 = span.member("m4", GIB);
    await span.applyLayout({ members: [m0, m1, m4], target: target("6Gi", "5Gi") });
    await waitFor("6Gi", async () => (await lastOperation())?.reached === "6Gi");
    parts.driver.refusals.set("NodeUnpublishVolume", { code: status.INTERNAL, details: "the array is on fire" });
    await span.applyLayout({ members: [m0, m1, leaving(m4)], target: target("5Gi", "6Gi") });
    await waitFor("the reason", async () => condition(await span.layout(), "Stalled")?.reason === "MemberFailed");
    expect(condition(await span.layout(), "Stalled")?.message).toContain("the array is on fire");
    expect(condition(await span.layout(), "Ready")?.status).toBe("True");
    expect(span.capacityBytes()).toBe(5 * GIB);
    parts.driver.refusals.clear();
    await waitFor("Removed", async () => (await span.memberStates()).includes("m4 1Gi Removed"));
    await waitFor("all is well", async () => condition(await span.layout(), "Stalled")?.status === "False");
    await span.applyLayout({ members: [m0, m1], target: target("5Gi", "5Gi") });
    await waitFor("m4 to be forgotten", async () => (await span.memberStates()).length === 2);
  });

  /** As etcd has both from before a shrink, with the agent away meanwhile. */
  async function putBack(member: MemberSpec, device: Device): Promise<void> {
    await agent.killAgent();
    await span.applyLayout({ members: [m0, m1, member], target: target("5Gi", "5Gi") });
    const { status: told } = await span.layout();
    const [m0Told, m1Told] = told?.members ?? [];
    const members = [m0Told, m1Told, { name: member.name, size: member.size, state: "Present", ...device }];
    const object = { apiVersion: API_VERSION, kind: "FilesystemLayout", metadata: { name: span.handle } };
    const options = { fieldManager: FIELD_MANAGERS.agent, force: true, subresource: "status" } as const;
    await agent.client.apply("test/put-back", FILESYSTEM_LAYOUTS, { ...object, status: { ...told, members } }, options);
    rmSync(join(agent.directory, "driver/volumes", `${span.handle}-${member.name}`), { force: true });
    await agent.startAgent({}, parts.flags);
  }

  it("says of a member that left before, and that a layout from a backup names, that it is gone, and serves the rest", async () => {
    const before = parts.driver.calls.length;
    await putBack(m2, { devid: 3, deviceUUID: "0a1b2c3d-0000-4000-8000-00000000000a" });
    await waitFor("Removed", async () => (await span.memberStates()).includes("m2 2Gi Removed"));
    expect(await span.memberStates()).toEqual(["m0 3Gi Present", "m1 2Gi Present", "m2 2Gi Removed"]);
    expect(condition(await span.layout(), "Ready")?.status).toBe("True");
    expect(readFileSync(join(span.stagingPath, "data")).equals(Buffer.alloc(64 * MIB, "tide"))).toBe(true);
    // As the operator corrects it.
    await span.applyLayout({ members: [m0, m1, leaving(m2)], target: target("5Gi", "5Gi") });
    await seen();
    expect(await span.memberStates()).toContain("m2 2Gi Removed");
    await span.applyLayout({ members: [m0, m1], target: target("5Gi", "5Gi") });
    await waitFor("m2 to be forgotten", async () => (await span.memberStates()).length === 2);
    expect(parts.driver.calls.slice(before).filter((call) => call.endsWith("-m2"))).toEqual([]);
  });

  it("says nothing of that while the filesystem has a device that is no member's", async () => {
    parts.driver.createVolume("in-doubt", GIB);
    execFileSync("losetup", ["--find", join(agent.directory, "driver/volumes/in-doubt")]);
    const strange = parts.driver.deviceOf("in-doubt") ?? "";
    execFileSync("btrfs", ["device", "add", "-K", strange, span.stagingPath]);
    await putBack(m2, { devid: 3, deviceUUID: "0a1b2c3d-0000-4000-8000-00000000000a" });
    await seen();
    await waitFor("what it says of it", async () => condition(await span.layout(), "Stalled")?.status === "True");
    expect(await span.memberStates()).not.toContain("m2 2Gi Removed");
    execFileSync("btrfs", ["device", "remove", strange, span.stagingPath]);
    execFileSync("losetup", ["--detach", strange]);
    await span.applyLayout({ members: [m0, m1], target: target("5Gi", "5Gi") });
    await waitFor("all is well", async () => condition(await span.layout(), "Stalled")?.status === "False");
  });

  it("holds every change of size while a device is in it that was added by hand, also after a restart", async () => {
    const file = join(agent.directory, "driver/volumes/by-hand");
    parts.driver.createVolume("by-hand", GIB);
    execFileSync("losetup", ["--find", file]);
    const byHand = parts.driver.deviceOf("by-hand") ?? "";
    execFileSync("btrfs", ["device", "add", "-K", byHand, span.stagingPath]);
    await agent.killAgent();
    await agent.startAgent({}, parts.flags);
    const stalled = async () => condition(await span.layout(), "Stalled");
    await waitFor("why it is held", async () => (await stalled())?.reason === "ResizeFailed");
    expect((await stalled())?.message).toContain(`${basename(byHand)}, which are not members`);
    await span.applyLayout({ members: [m0, leaving(m1)], target: target("3Gi", "5Gi") });
    await seen();
    expect((await span.layout()).status).toMatchObject({ mounted: true, lastOperation: { reached: "5Gi" } });
    expect(readdirSync(`/sys/fs/btrfs/${(await span.layout()).status?.fsid}/devices`)).toHaveLength(3);
    await span.applyLayout({ members: [m0, m1], target: target("5Gi", "5Gi") });
    execFileSync("btrfs", ["device", "remove", byHand, span.stagingPath]);
    execFileSync("losetup", ["--detach", byHand]);
    await waitFor("all is well", async () => (await stalled())?.status === "False");
    expect(await span.memberStates()).toEqual(["m0 3Gi Present", "m1 2Gi Present"]);
  });

  it("leaves everything mounted when it is killed, and takes it over without the driver's help", async () => {
    await agent.killAgent();
    expect(readFileSync(join(span.targetPath, "file"), "utf8")).toBe("written by the pod");
    const calls = parts.driver.calls.length;
    await agent.startAgent({}, parts.flags);
    await waitFor("the takeover", () => agent.log().split("taken over from an earlier agent").length > 1);
    m2 = span.member("m3", GIB);
    await span.applyLayout({ members: [m0, m1, m2], target: target("6Gi", "5Gi") });
    await waitFor("6Gi", async () => (await lastOperation())?.reached === "6Gi");
    const added = parts.driver.calls
      .slice(calls)
      .filter((call) => !call.endsWith("-m3") && call !== "NodeGetCapabilities");
    expect(added).toEqual([]);
  });

  it("lets go of the filesystem and of every member, and keeps the data for the next pod", async () => {
    await span.unpublish();
    await span.unstage();
    await span.unstage();
    expect([m0, m1, m2].map(deviceOf)).toEqual([undefined, undefined, undefined]);
    await waitFor("not mounted", async () => (await span.layout()).status?.mounted === false);
    expect(await span.memberStates()).toEqual(["m0 3Gi Present", "m1 2Gi Present", "m3 1Gi Present"]);
    await span.stage();
    expect(span.capacityBytes()).toBe(6 * GIB);
    expect(readFileSync(join(span.stagingPath, "file"), "utf8")).toBe("written by the pod");
    await span.unstage();
  });

  it("gives back what a stage had that failed, and does not say that it is mounted any more", async () => {
    parts.driver.refusals.set("NodeStageVolume", { code: status.INTERNAL, details: "the array is on fire" });
    const staging = span.stage();
    await expect(staging).rejects.toThrow("the array is on fire");
    await waitFor("not mounted", async () => (await span.layout()).status?.mounted === false);
    parts.driver.refusals.clear();
    parts.driver.refusals.set("NodePublishVolume", { code: status.INTERNAL, details: "no more slots" });
    await expect(span.stage()).rejects.toThrow("no more slots");
    await waitFor("nothing staged", () => [m0, m1, m2].every((member) => deviceOf(member) === undefined));
    await waitFor("not mounted", async () => (await span.layout()).status?.mounted === false);
    expect(await span.memberStates()).toEqual(["m0 3Gi Present", "m1 2Gi Present", "m3 1Gi Present"]);
    parts.driver.refusals.clear();
  });

  it("forgets a span that has gone to another node, and comes back to what it has become there", async () => {
    const recordPath = join(agent.directory, "state/volumes", `${span.handle}.json`);
    await waitFor("a record", () => existsSync(recordPath));
    await span.applyLayout({ members: [m0, m1, m2], nodeName: "node-b" });
    await waitFor("no record", () => !existsSync(recordPath));
    expect(existsSync(join(agent.directory, "state/spans", `${span.handle}.span.json`))).toBe(false);
    await span.applyLayout({ members: [m0, m1, m2] });
    await span.stage();
    expect(span.capacityBytes()).toBe(6 * GIB);
    expect(readFileSync(join(span.stagingPath, "file"), "utf8")).toBe("written by the pod");
  });

  it("does nothing about members that all shall go: their claims are the operator's to delete", async () => {
    await span.unstage();
    const { calls } = parts.driver;
    const before = calls.length;
    await span.applyLayout({ members: [m0, m1, m2].map(leaving) });
    await seen();
    await span.applyLayout({ members: [m0, m1, m2].map(leaving), nodeName: undefined });
    await waitFor("no record", () => !existsSync(join(agent.directory, "state/volumes", `${span.handle}.json`)));
    expect(calls.slice(before)).toEqual([]);
    expect(await span.memberStates()).toEqual(["m0 3Gi Present", "m1 2Gi Present", "m3 1Gi Present"]);
  });

  it("has never reported a size without the members that it is of", () => {
    const told = reports.seen.filter(
      ({ status: of }) => of?.mounted === true && (of.operation ?? undefined) === undefined,
    );
    const sizes = told.flatMap(({ status: of }) => {
      const { kind, reached } = of?.lastOperation ?? {};
      if (kind !== "Extend" || reached === undefined) return [];
      const present = (of?.members ?? []).filter(({ state }) => state === "Present");
      return [
        { reached: parseQuantity(reached), members: present.reduce((sum, { size }) => sum + parseQuantity(size), 0) },
      ];
    });
    expect(sizes.length).toBeGreaterThan(5);
    expect(sizes.filter(({ reached, members }) => members < reached)).toEqual([]);
  });
});

interface Reports {
  readonly seen: readonly FilesystemLayout[];
  stop(): void;
}

/** Every version of the layout that anybody could have read. */
function recordReports({ client }: AgentUnderTest, handle: string): Reports {
  const seen: FilesystemLayout[] = [];
  const controller = new AbortController();
  const record = async (): Promise<void> => {
    let { resourceVersion } = await client.list(FILESYSTEM_LAYOUTS);
    while (!controller.signal.aborted)
      for await (const event of client.watch(FILESYSTEM_LAYOUTS, { resourceVersion, signal: controller.signal })) {
        resourceVersion =
          event.type === "BOOKMARK" ? event.resourceVersion : (event.object.metadata.resourceVersion ?? "");
        if (event.type !== "BOOKMARK" && event.object.metadata.name === handle) seen.push(event.object);
      }
  };
  record().catch((error: unknown) => {
    if (!controller.signal.aborted) throw error;
  });
  return { seen, stop: () => controller.abort() };
}
