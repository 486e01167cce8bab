// A member file that somebody makes shorter under its mounted filesystem: the agent says so by itself, changes nothing, and goes on once the
// file is as long as it was.
import { randomUUID } from "node:crypto";
import { statSync, truncateSync } from "node:fs";
import { setTimeout as pause } from "node:timers/promises";
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

const QUIET_MS = 5000;

describeReal("a member file that is cut under its mounted filesystem", STACK_PARTS, () => {
  let agent: AgentUnderTest;
  let volume: VolumeUnderTest;
  const statusNow = async () => (await volume.layout()).status;

  beforeEach(async () => {
    agent = await startAgentUnderTest();
    await agent.startAgent();
    volume = volumeUnderTest(agent, randomUUID(), "1Gi");
    await volume.applyLayout();
    await volume.stage();
  });
  afterEach(async () => {
    await agent.dispose();
  });

  it("is named with both sizes; neither a target nor a grant changes anything until it has its length again", async () => {
    await waitFor("a first reading", () => agent.samples.length > 0);
    truncateSync(volume.memberPath, 512 * MIB);
    await waitFor("the condition", async () => (await volume.condition("Stalled"))?.reason === "MembersMissing");
    const { status, message } = (await volume.condition("Ready")) ?? {};
    expect(status).toBe("False");
    expect(message).toContain(volume.memberPath);
    expect(message).toMatch(/it has 536870912 bytes, and its btrfs needs 1073741824/);

    const expiry = new Date(Date.now() + 3_600_000).toISOString();
    await volume.applyGrant({ size: "2Gi", minAvailable: "2Gi", expiry, epoch: 1 });
    await volume.applyLayout({ target: { size: "3Gi", from: "1Gi", epoch: 1, decidedAt: new Date().toISOString() } });
    await pause(QUIET_MS);
    expect((await statusNow())?.lastOperation).toBeUndefined();
    expect(statSync(volume.memberPath).size).toBeLessThan(GIB);
    expect(volume.capacityBytes()).toBe(GIB);

    truncateSync(volume.memberPath, GIB);
    await waitFor("the emergency and the extend", () => volume.capacityBytes() === 3 * GIB);
    await waitFor("the condition to go", async () => (await volume.condition("Stalled"))?.status === "False");
  });
});
