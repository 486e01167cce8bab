// A member and its filesystem that an operation has left at two sizes: they come to agree by themselves, whatever came between.
import { execFileSync } from "node:child_process";
import { randomUUID } from "node:crypto";
import { statSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "@jest/globals";
import { GIB, MIB } from "../../../src/contracts/quantities/quantity.ts";
import { describeReal, STACK_PARTS } from "../../harness/real-parts.ts";
import {
  type AgentUnderTest,
  startAgentUnderTest,
  type VolumeUnderTest,
  volumeUnderTest,
  waitFor,
} from "./agent-under-test.ts";

const target = (size: string, from: string) => ({ size, from, epoch: 1, decidedAt: new Date().toISOString() });

describeReal("a filesystem smaller than its member", STACK_PARTS, () => {
  let agent: AgentUnderTest;
  let volume: VolumeUnderTest;
  const memberBytes = (): number => statSync(volume.memberPath).size;
  const lastOperation = async () => (await volume.layout()).status?.lastOperation;
  const stalled = () => volume.condition("Stalled");

  beforeEach(async () => {
    agent = await startAgentUnderTest();
    volume = volumeUnderTest(agent, randomUUID(), "1Gi");
    await volume.applyLayout();
    await agent.startAgent();
    await volume.stage();
  });
  afterEach(async () => {
    await agent.dispose();
  });

  /** A second device under the filesystem: a resize refuses to guess which one is meant, once the member has its new size. */
  function addStrangeDevice(): { remove(): void } {
    const file = join(agent.directory, "strange");
    writeFileSync(file, "");
    truncateSync(file, 256 * MIB);
    const device = execFileSync("losetup", ["--find", "--show", file], { encoding: "utf8" }).trim();
    execFileSync("btrfs", ["device", "add", device, volume.stagingPath]);
    return {
      remove: () => {
        execFileSync("btrfs", ["device", "remove", device, volume.stagingPath]);
        execFileSync("losetup", ["--detach", device]);
      },
    };
  }

  async function failToExtend(): Promise<{ remove(): void }> {
    const strange = addStrangeDevice();
    await volume.applyLayout({ target: target("2Gi", "1Gi") });
    await waitFor("the failure", async () => (await lastOperation())?.outcome === "Failed");
    expect(memberBytes()).toBe(2 * GIB);
    return strange;
  }

  it("after a failed extend says what is wrong, and grows as soon as it can", async () => {
    const strange = await failToExtend();
    await waitFor("the reason", async () => (await stalled())?.message?.includes("has 2 devices") ?? false);
    expect((await stalled())?.status).toBe("True");
    strange.remove();
    await waitFor("the filesystem's growth", () => volume.capacityBytes() === 2 * GIB);
    await waitFor("the condition's end", async () => (await stalled())?.status === "False");
  });

  it("after a failed extend grows with the next agent", async () => {
    const strange = await failToExtend();
    await agent.killAgent();
    strange.remove();
    expect(volume.capacityBytes()).toBe(GIB);
    await agent.startAgent();
    await waitFor("the filesystem's growth", () => volume.capacityBytes() === 2 * GIB);
  });

  it("after a failed extend grows when it is staged anew", async () => {
    const strange = await failToExtend();
    await agent.killAgent();
    strange.remove();
    execFileSync("umount", [volume.stagingPath]);
    await agent.startAgent();
    await volume.stage();
    await waitFor("the filesystem's growth", () => volume.capacityBytes() === 2 * GIB);
  });

  it("after an emergency that failed gets the emergency's size as soon as that can be", async () => {
    const strange = addStrangeDevice();
    // More than can be available: each reading crosses it.
    const expiry = new Date(Date.now() + 3_600_000).toISOString();
    await volume.applyGrant({ size: "2Gi", minAvailable: "6Gi", expiry, epoch: 1 });
    await waitFor("the failure", async () => (await lastOperation())?.outcome === "Failed");
    strange.remove();
    await waitFor("the filesystem's growth", () => volume.capacityBytes() === 2 * GIB);
    expect(memberBytes()).toBe(2 * GIB);
  });

  it("after a shrink that was interrupted and is no longer wanted has its member's size again", async () => {
    await volume.applyLayout({ target: target("3Gi", "1Gi") });
    await waitFor("the extend", async () => (await lastOperation())?.kind === "Extend");
    await agent.stopAgent();
    await agent.startAgent({ TIDEMARK_FAULT: "shrink/truncate-file/before#1" });
    await volume.applyLayout({ target: target("1200Mi", "3Gi") });
    await agent.agentEnded();
    expect(volume.capacityBytes()).toBeLessThan(3 * GIB);
    await volume.applyLayout({ target: target("1200Mi", "9Gi") });
    await agent.startAgent();
    await waitFor("the shrink's end", async () => (await lastOperation())?.kind === "Shrink");
    expect(await lastOperation()).toMatchObject({ outcome: "Cancelled", reached: "3Gi" });
    expect(volume.capacityBytes()).toBe(3 * GIB);
    expect(memberBytes()).toBe(3 * GIB);
  });
});
