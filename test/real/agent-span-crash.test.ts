// What survives the agent's death in the middle of work on a span, and what the next agent makes of it.
import { randomUUID } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, afterEach, beforeEach, expect, it } from "@jest/globals";
import type { MemberSpec } from "../../src/contracts/kinds/filesystem-layout.ts";
import { GIB } from "../../src/contracts/quantities/quantity.ts";
import { deathRecord } from "../harness/death-notes.ts";
import { describeReal, STACK_PARTS } from "../harness/real-parts.ts";
import { type AgentUnderTest, startAgentUnderTest, waitFor } from "../integration/agent/agent-under-test.ts";
import {
  createSpanParts,
  leaving,
  type SpanParts,
  type SpanUnderTest,
  spanUnderTest,
} from "../integration/agent/span-under-test.ts";

const target = (size: string, from: string, epoch = 1) => ({ size, from, epoch, decidedAt: new Date().toISOString() });

describeReal("an agent that dies at work on a span", STACK_PARTS, () => {
  const deaths = deathRecord("agent-span-crash");
  let planted: string;
  let agent: AgentUnderTest;
  let parts: SpanParts;
  let span: SpanUnderTest;
  let m0: MemberSpec;
  let m1: MemberSpec;
  const lastOperation = async () => (await span.layout()).status?.lastOperation;
  const deviceOf = ({ name }: MemberSpec) => parts.driver.deviceOf(`${span.handle}-${name}`);

  beforeEach(async () => {
    agent = await startAgentUnderTest();
    parts = await createSpanParts(agent);
    span = spanUnderTest(agent, parts, randomUUID());
    m0 = span.member("m0", GIB);
    m1 = span.member("m1", GIB);
    await span.applyLayout({ members: [m0] });
    await agent.startAgent({}, parts.flags);
    await span.stage();
    writeFileSync(join(span.stagingPath, "file"), "still here");
  });
  afterEach(async () => {
    await parts.close();
    await agent.dispose();
  });

  afterAll(() => deaths.note());

  /** Every case waits for the death that it plants. */
  async function restartWith(fault: string): Promise<void> {
    planted = fault;
    await agent.stopAgent();
    await agent.startAgent({ TIDEMARK_FAULT: fault }, parts.flags);
  }

  async function died(): Promise<void> {
    await agent.agentEnded();
    deaths.killedAt(planted);
  }

  async function extendToTwo(): Promise<void> {
    await span.applyLayout({ members: [m0, m1], target: target("2Gi", "1Gi") });
    await waitFor("the extend", async () => (await lastOperation())?.reached === "2Gi");
    await waitFor("both members", async () => (await span.memberStates()).length === 2);
  }

  it.each(["span/announce/before", "span/announce/after", "span/publish-member/after", "span/format/before"])(
    "at %s of its first stage: the next one gives back what it had, says so, and stages it",
    async (fault) => {
      const fresh = spanUnderTest(agent, parts, randomUUID());
      const only = fresh.member("m0", GIB);
      await restartWith(fault);
      await fresh.applyLayout({ members: [only] });
      await expect(fresh.stage()).rejects.toThrow();
      await died();
      await agent.startAgent({}, parts.flags);
      await waitFor("not mounted", async () => (await fresh.layout()).status?.mounted === false);
      expect(parts.driver.deviceOf(`${fresh.handle}-m0`)).toBeUndefined();
      await fresh.stage();
      expect(fresh.capacityBytes()).toBe(GIB);
    },
  );

  it.each(["span/add-device/before", "span/add-device/after"])(
    "at %s of an emergency: the next one has the spare in the filesystem, once",
    async (fault) => {
      const spare: MemberSpec = { ...m1, state: "Spare" };
      const emergency = { size: "2Gi", minAvailable: "400Mi", expiry: "2040-01-01T00:00:00Z", epoch: 1 };
      const isReady = async () => (await span.memberStates()).includes("m1 1Gi Spare");
      await span.applyLayout({ members: [m0, spare], emergency });
      await waitFor("the spare", isReady);
      await restartWith(fault);
      await waitFor("the spare again", () => agent.log().split("taken over from an earlier agent").length > 1);
      await waitFor(
        "the spare",
        async () => (await isReady()) && parts.driver.calls.at(-1)?.startsWith("NodePublish") === true,
      );
      writeFileSync(join(span.stagingPath, "more"), Buffer.alloc(700 * 1024 * 1024));
      await died();
      await agent.startAgent({}, parts.flags);
      await waitFor("both members", async () => (await span.memberStates()).join() === "m0 1Gi Present,m1 1Gi Present");
      expect(span.capacityBytes()).toBe(2 * GIB);
      expect(readFileSync(join(span.stagingPath, "file"), "utf8")).toBe("still here");
    },
  );

  it.each(["span/publish-member/after", "span/add-device/before", "span/add-device/after"])(
    "at %s: the next one adds the member, once",
    async (fault) => {
      await restartWith(fault);
      await span.applyLayout({ members: [m0, m1], target: target("2Gi", "1Gi") });
      await died();
      expect((await span.layout()).status?.operation).toMatchObject({ kind: "Extend", from: "1Gi", to: "2Gi" });
      await agent.startAgent({}, parts.flags);
      await waitFor("the extend", async () => (await lastOperation())?.outcome === "Succeeded");
      expect(span.capacityBytes()).toBe(2 * GIB);
      await waitFor("both members", async () => (await span.memberStates()).length === 2);
      expect(readFileSync(join(span.stagingPath, "file"), "utf8")).toBe("still here");
    },
  );

  it.each(["span/remove-device/before", "span/remove-device/after", "span/wipe/after", "span/record-released/before"])(
    "at %s: the next one takes the member out, and gives it back",
    async (fault) => {
      await extendToTwo();
      await restartWith(fault);
      await span.applyLayout({ members: [m0, leaving(m1)], target: target("1Gi", "2Gi") });
      await died();
      await agent.startAgent({}, parts.flags);
      await waitFor("Removed", async () => (await span.memberStates()).some((member) => member.endsWith("Removed")));
      expect(await span.memberStates()).toContain("m1 1Gi Removed");
      // A look at the members in the middle of it tells of the one that is out before the shrink has ended.
      await waitFor("the shrink's end", async () => (await lastOperation())?.kind === "Shrink");
      expect(await lastOperation()).toMatchObject({ kind: "Shrink", outcome: "Succeeded", reached: "1Gi" });
      expect(deviceOf(m1)).toBeUndefined();
      expect(readFileSync(join(span.stagingPath, "file"), "utf8")).toBe("still here");
    },
  );

  it("with a member out and not wiped, which is wanted again: the next one lets go of it, and uses another", async () => {
    await extendToTwo();
    await restartWith("span/wipe/before");
    await span.applyLayout({ members: [m0, leaving(m1)], target: target("1Gi", "2Gi") });
    await died();
    const m2 = span.member("m2", 2 * GIB);
    await span.applyLayout({ members: [m0, m1, m2], target: target("3Gi", "2Gi") });
    await agent.startAgent({}, parts.flags);
    await waitFor("3Gi", async () => (await lastOperation())?.reached === "3Gi");
    await waitFor("Removed", async () => (await span.memberStates()).some((member) => member.endsWith("Removed")));
    expect(await span.memberStates()).toContain("m1 1Gi Removed");
    expect(await span.memberStates()).toContain("m2 2Gi Present");
    expect(deviceOf(m1)).toBeUndefined();
    expect(readFileSync(join(span.stagingPath, "file"), "utf8")).toBe("still here");
  });
});
