// A span that never answers, beside a volume that does: whatever is asked about it, the agent goes on.
import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, expect, it } from "@jest/globals";
import { GIB } from "../../../src/contracts/quantities/quantity.ts";
import { describeReal, STACK_PARTS } from "../../harness/real-parts.ts";
import {
  type AgentUnderTest,
  startAgentUnderTest,
  type VolumeUnderTest,
  volumeUnderTest,
  waitFor,
} from "./agent-under-test.ts";
import { coverWithHungMount, type HungMount } from "./hung-mount.ts";
import { createSpanParts, type SpanParts, type SpanUnderTest, spanUnderTest } from "./span-under-test.ts";

const target = (size: string, from: string) => ({ size, from, epoch: 1, decidedAt: new Date().toISOString() });

describeReal("a span that does not answer", STACK_PARTS, () => {
  let agent: AgentUnderTest;
  let parts: SpanParts;
  let well: VolumeUnderTest;
  let span: SpanUnderTest;
  let hung: HungMount | undefined;
  const ready = async () => (await span.layout()).status?.conditions?.find(({ type }) => type === "Ready");
  const release = async (): Promise<void> => {
    await hung?.release();
    hung = undefined;
  };

  beforeAll(async () => {
    agent = await startAgentUnderTest();
    parts = await createSpanParts(agent);
    await agent.startAgent({}, parts.flags);
    well = volumeUnderTest(agent, randomUUID(), "1Gi");
    span = spanUnderTest(agent, parts, randomUUID());
    await well.applyLayout();
    await well.stage();
    await span.applyLayout({ members: [span.member("m0", GIB)] });
    await span.stage();
    for (const { handle } of [well, span])
      await waitFor("a sample of each", () => agent.samples.some(({ volumeHandle }) => volumeHandle === handle));
    hung = coverWithHungMount(span.stagingPath);
  });
  afterAll(async () => {
    await release();
    await parts.close();
    await agent.dispose();
  });

  it("gets the condition FilesystemHung, and stays what it was: mounted, with all its members", async () => {
    await waitFor("the condition", async () => (await ready())?.reason === "FilesystemHung");
    expect((await span.layout()).status).toMatchObject({
      mounted: true,
      members: [{ name: "m0", size: "1Gi", state: "Present" }],
    });
  });

  it("is looked at whenever its layout changes, and delays no operation of the one that answers", async () => {
    const { members } = (await span.layout()).spec;
    await span.applyLayout({ members, target: target("2Gi", "1Gi") });
    const { generation } = (await span.layout()).metadata;
    await waitFor("the look", async () => (await span.layout()).status?.observedGeneration === generation);
    await well.applyLayout({ target: target("2Gi", "1Gi") });
    await waitFor("the extend", async () => (await well.layout()).status?.lastOperation?.outcome === "Succeeded");
    expect(well.capacityBytes()).toBe(2 * GIB);
  });

  it("is ready again as soon as it answers", async () => {
    await release();
    await waitFor("the recovery", async () => (await ready())?.reason === "Ready");
  });
});
