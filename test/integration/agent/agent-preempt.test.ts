// What ends a running shrink before its target: an extend, an emergency, kubelet's unstage. And what the CSI service refuses.
import { randomUUID } from "node:crypto";
import { mkdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { status } from "@grpc/grpc-js";
import { afterAll, afterEach, beforeAll, beforeEach, expect, it } from "@jest/globals";
import { exclusiveOperation } from "../../../src/agent/storage/btrfs/exclusive-operation.ts";
import type { NodeRecord } from "../../../src/agent/volumes/node-records.ts";
import { fsidOf } from "../../../src/contracts/identity.ts";
import { GIB, parseQuantity } from "../../../src/contracts/quantities/quantity.ts";
import { freshMetrics } from "../../harness/fresh-metrics.ts";
import { describeReal, STACK_PARTS } from "../../harness/real-parts.ts";
import {
  type AgentUnderTest,
  startAgentUnderTest,
  type VolumeUnderTest,
  volumeUnderTest,
  waitFor,
} from "./agent-under-test.ts";
import { type FrozenFilesystem, freezeFilesystem } from "./frozen-filesystem.ts";

const target = (size: string, from: string) => ({ size, from, epoch: 1, decidedAt: new Date().toISOString() });

describeReal("a running shrink", STACK_PARTS, () => {
  let agent: AgentUnderTest;
  let volume: VolumeUnderTest;
  let frozen: FrozenFilesystem;
  const statusNow = async () => (await volume.layout()).status;
  const counted = async (labels: string): Promise<number> => {
    const text = await freshMetrics(agent.metricsUrl);
    const line = text.split("\n").find((one) => one.startsWith(`tidemark_filesystem_operations_total{${labels}`));
    return Number(line?.split(" ").at(-1) ?? 0);
  };

  beforeAll(async () => {
    agent = await startAgentUnderTest();
    await agent.startAgent();
  });
  afterAll(async () => {
    await agent.dispose();
  });
  beforeEach(async () => {
    volume = volumeUnderTest(agent, randomUUID(), "6Gi");
    await volume.applyLayout();
    await volume.stage();
    frozen = freezeFilesystem(volume.stagingPath);
    await volume.applyLayout({ target: target("1800Mi", "6Gi") });
    await waitFor("the shrink's first step", () => frozen.holdsResize());
  });
  afterEach(() => {
    frozen.thaw();
    rmSync(volume.memberPath, { force: true }); // sparse, but the host's room is promised to it
  });

  /** The agent has looked at the layout as it is now. */
  const looked = async (): Promise<void> => {
    const generation = (await volume.layout()).metadata.generation;
    await waitFor("a look at the layout", async () => (await statusNow())?.observedGeneration === generation);
  };

  it("is cancelled for an extend, which then takes place", async () => {
    const before = await counted('kind="Shrink",outcome="Cancelled"');
    await volume.applyLayout({ target: target("7Gi", "6Gi") });
    await looked();
    frozen.thaw();
    await waitFor("the extend", async () => (await statusNow())?.lastOperation?.to === "7Gi");
    expect((await statusNow())?.lastOperation).toMatchObject({ kind: "Extend", outcome: "Succeeded" });
    expect(volume.capacityBytes()).toBe(7 * GIB);
    expect(await counted('kind="Shrink",outcome="Cancelled"')).toBe(before + 1);
    await volume.unstage();
  });

  it("ends where it is when its policy is withdrawn, and the size that it has reached stays", async () => {
    await volume.applyLayout({ target: target("6Gi", "6Gi") });
    await looked();
    frozen.thaw();
    await waitFor("its end", async () => (await statusNow())?.lastOperation !== undefined);
    const { lastOperation, operation, members } = (await statusNow()) ?? {};
    expect(operation).toBeUndefined();
    expect(lastOperation).toMatchObject({ kind: "Shrink", outcome: "Cancelled", reason: "ShrinkCancelled" });
    expect(lastOperation?.message).toContain("no longer wanted");
    expect(exclusiveOperation(fsidOf(volume.handle.replace("fs-", "")))).toBe("none");
    const reachedBytes = volume.capacityBytes();
    expect(reachedBytes).toBe(statSync(volume.memberPath).size);
    expect(parseQuantity(members?.[0]?.size ?? "0")).toBe(reachedBytes);
    // Also when the layout is read once more it neither goes on nor grows back. A grant that is lowered has that reported.
    for (const size of ["7Gi", "6500Mi"])
      await volume.applyGrant({ size, minAvailable: "1Mi", expiry: new Date(0).toISOString(), epoch: 1 });
    await looked();
    expect((await statusNow())?.lastOperation).toEqual(lastOperation);
    expect(volume.capacityBytes()).toBe(reachedBytes);
    await volume.unstage();
  });

  it("gives way to an emergency", async () => {
    // More than can be available: the next reading crosses it.
    const expiry = new Date(Date.now() + 3_600_000).toISOString();
    await volume.applyGrant({ size: "7Gi", minAvailable: "6Gi", expiry, epoch: 1 });
    await waitFor("the crossing to be seen", () => agent.log().includes("minAvailable is crossed"));
    frozen.thaw();
    await waitFor("the emergency", async () => (await statusNow())?.lastOperation?.emergency === true);
    expect((await statusNow())?.lastOperation).toMatchObject({
      outcome: "Succeeded",
      reached: "7Gi",
      reason: "EmergencySpent",
    });
    // The shrink is not taken up again, also when the layout is read once more. A grant that is lowered has that reported.
    await volume.applyGrant({ size: "6500Mi", minAvailable: "1Mi", expiry, epoch: 1 });
    await looked();
    expect((await statusNow())?.operation).toBeUndefined();
    expect((await statusNow())?.lastOperation?.emergency).toBe(true);
    expect(volume.capacityBytes()).toBe(7 * GIB);
    await volume.unstage();
  });

  it("is cancelled by an orderly end of the agent: nobody would watch over it", async () => {
    const stopped = agent.stopAgent();
    await waitFor("the cancel", () => agent.log().includes("the agent ends, and cancels its shrink"));
    frozen.thaw();
    expect(await stopped).toBe(0);
    const path = join(agent.directory, "state/volumes", `${volume.handle}.json`);
    const record = JSON.parse(readFileSync(path, "utf8")) as Pick<NodeRecord, "operation" | "lastOperation">;
    expect(record.operation).toBeUndefined();
    expect(record.lastOperation).toMatchObject({ kind: "Shrink", outcome: "Cancelled" });
    expect(record.lastOperation?.message).toContain("the agent ends");
    expect(exclusiveOperation(fsidOf(volume.handle.replace("fs-", "")))).toBe("none");
    expect(volume.capacityBytes()).toBe(statSync(volume.memberPath).size);
    await agent.startAgent();
    await volume.unstage();
  });

  it("is cancelled when kubelet unstages the volume, and says so", async () => {
    const unstaged = volume.unstage();
    // Calls come in their order: when the later one is answered, the first one has begun.
    await volumeUnderTest(agent, randomUUID(), "1Gi").unstage();
    frozen.thaw();
    await unstaged;
    await waitFor(
      "its end to be told",
      async () => (await volume.condition("Ready"))?.message?.includes("not mounted") ?? false,
    );
    expect((await statusNow())?.lastOperation).toMatchObject({ outcome: "Cancelled", reason: "ShrinkCancelled" });
  });
});

describeReal("a request to the node service", STACK_PARTS, () => {
  let agent: AgentUnderTest;
  const handle = (): string => `fs-${randomUUID()}`;
  const call = (change: { volumeId?: string; stagingTargetPath?: string }) =>
    agent.node.unstage({ volumeId: handle(), stagingTargetPath: join(agent.directory, "kubelet/x"), ...change });

  beforeAll(async () => {
    agent = await startAgentUnderTest();
    await agent.startAgent();
  });
  afterAll(async () => {
    await agent.dispose();
  });

  it.each([
    ["", status.INVALID_ARGUMENT, "volume id"],
    ...["fs-", "fs-1", "../../etc", "FS-0a1b2c3d-0000-4000-8000-00000000000a"].map(
      (volumeId) => [volumeId, status.NOT_FOUND, "volume handle"] as const,
    ),
  ])("with the volume handle %j is refused", async (volumeId, code, text) => {
    await expect(call({ volumeId })).rejects.toMatchObject({ code, details: expect.stringContaining(text) });
  });

  it("with a path outside of kubelet's directory is refused", async () => {
    mkdirSync(join(agent.directory, "other"));
    for (const stagingTargetPath of ["/etc/passwd", join(agent.directory, "other/x"), "relative"])
      await expect(call({ stagingTargetPath })).rejects.toMatchObject({ code: 3 });
  });

  it("for a volume of another node is refused", async () => {
    const volume = volumeUnderTest(agent, randomUUID(), "1Gi");
    await volume.applyLayout({ nodeName: "node-b" });
    await expect(volume.stage()).rejects.toMatchObject({ code: 5, details: expect.stringContaining("node-a") });
  });

  it("to publish what is not staged is refused", async () => {
    const volume = volumeUnderTest(agent, randomUUID(), "1Gi");
    await volume.applyLayout();
    mkdirSync(join(volume.stagingPath, ".."), { recursive: true });
    await expect(volume.publish()).rejects.toMatchObject({ code: 9, details: expect.stringContaining("not staged") });
  });

  it("to unstage what was never staged succeeds", async () => {
    await expect(call({})).resolves.toBeUndefined();
  });
});
