// What ends a running shrink before its target: an extend, an emergency, kubelet's unstage. And what the CSI service refuses.
import { randomUUID } from "node:crypto";
import { closeSync, fsyncSync, mkdirSync, openSync, writeSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, expect, it, jest } from "@jest/globals";
import { GIB, MIB } from "../../../src/units/quantity.ts";
import { describeReal, LOOP_PARTS } from "../../harness/real-parts.ts";
import {
  type AgentUnderTest,
  startAgentUnderTest,
  type VolumeUnderTest,
  volumeUnderTest,
  waitFor,
} from "./agent-under-test.ts";

jest.setTimeout(90_000);
// Six steps or more, with something to move in the last ones.
const DATA_BYTES = 512 * MIB;
const target = (size: string, from: string) => ({ size, from, epoch: 1, decidedAt: new Date().toISOString() });

function write(path: string, sizeBytes: number): void {
  const file = openSync(path, "w");
  const chunk = Buffer.alloc(8 * MIB, "ebb");
  for (let written = 0; written < sizeBytes; written += chunk.length) writeSync(file, chunk);
  fsyncSync(file);
  closeSync(file);
}

describeReal("a running shrink", LOOP_PARTS, () => {
  let agent: AgentUnderTest;
  let volume: VolumeUnderTest;
  const status = async () => (await volume.layout()).status;
  const counted = async (labels: string): Promise<number> => {
    const text = await (await fetch(agent.metricsUrl)).text();
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
    write(join(volume.stagingPath, "data"), DATA_BYTES);
    await volume.applyLayout({ target: target("1800Mi", "6Gi") });
    await waitFor("the shrink to begin", async () => (await status())?.operation?.kind === "Shrink");
  });

  it("is cancelled for an extend, which then takes place", async () => {
    const before = await counted('kind="Shrink",outcome="Cancelled"');
    await volume.applyLayout({ target: target("7Gi", "6Gi") });
    await waitFor("the extend", async () => (await status())?.lastOperation?.to === "7Gi");
    expect((await status())?.lastOperation).toMatchObject({ kind: "Extend", outcome: "Succeeded" });
    expect(volume.capacityBytes()).toBe(7 * GIB);
    expect(await counted('kind="Shrink",outcome="Cancelled"')).toBe(before + 1);
    await volume.unstage();
  });

  it("gives way to an emergency", async () => {
    // More than can be available: the next reading crosses it.
    const expiry = new Date(Date.now() + 3_600_000).toISOString();
    await volume.applyGrant({ size: "7Gi", minAvailable: "6Gi", expiry, epoch: 1 });
    await waitFor("the emergency", async () => (await status())?.lastOperation?.emergency === true);
    expect((await status())?.lastOperation).toMatchObject({
      outcome: "Succeeded",
      reached: "7Gi",
      reason: "EmergencySpent",
    });
    // The shrink is not taken up again.
    const generation = (await volume.layout()).metadata.generation;
    await waitFor("a look at the layout", async () => (await status())?.observedGeneration === generation);
    expect((await status())?.operation).toBeUndefined();
    expect(volume.capacityBytes()).toBe(7 * GIB);
    await volume.unstage();
  });

  it("is cancelled when kubelet unstages the volume, and says so", async () => {
    await volume.unstage();
    await waitFor("its end", async () => (await status())?.lastOperation?.kind === "Shrink");
    expect((await status())?.lastOperation).toMatchObject({ outcome: "Cancelled", reason: "ShrinkCancelled" });
    expect((await status())?.conditions?.find(({ type }) => type === "Ready")?.message).toContain("not mounted");
  });
});

describeReal("a request to the node service", LOOP_PARTS, () => {
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

  it.each(["", "fs-", "fs-1", "../../etc", "FS-0a1b2c3d-0000-4000-8000-00000000000a"])(
    "with the volume handle %j is refused",
    async (volumeId) => {
      await expect(call({ volumeId })).rejects.toMatchObject({
        code: 3,
        details: expect.stringContaining("volume handle"),
      });
    },
  );

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
