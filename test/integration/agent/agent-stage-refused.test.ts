// A stage that the agent refuses: whoever looks at the layout sees why, until a stage succeeds.
import { execFileSync } from "node:child_process";
import { randomUUID } from "node:crypto";
import { truncateSync } from "node:fs";
import { afterAll, beforeAll, expect, it } from "@jest/globals";
import { describeReal, STACK_PARTS } from "../../harness/real-parts.ts";
import {
  type AgentUnderTest,
  startAgentUnderTest,
  type VolumeUnderTest,
  volumeUnderTest,
  waitFor,
} from "./agent-under-test.ts";

describeReal("a stage that is refused, since the member carries something else", STACK_PARTS, () => {
  let agent: AgentUnderTest;
  let volume: VolumeUnderTest;
  const stalled = () => volume.condition("Stalled");

  beforeAll(async () => {
    agent = await startAgentUnderTest();
    await agent.startAgent();
    volume = volumeUnderTest(agent, randomUUID(), "1Gi");
    await volume.applyLayout();
    execFileSync("mkfs.ext4", ["-q", volume.memberPath, "64M"]);
  });
  afterAll(async () => {
    await agent.dispose();
  });

  it("is told to kubelet, and stands in the layout's conditions", async () => {
    await expect(volume.stage()).rejects.toMatchObject({ details: expect.stringContaining("ext4 signature") });
    await waitFor("the condition", async () => (await stalled())?.reason === "SignatureFound");
    expect((await stalled())?.message).toContain("carries a ext4 signature");
  });

  it("stands there no longer than until a stage succeeds", async () => {
    truncateSync(volume.memberPath, 0);
    await volume.stage();
    await waitFor("the condition's end", async () => (await stalled())?.status === "False");
  });
});
