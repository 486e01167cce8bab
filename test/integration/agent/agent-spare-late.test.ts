// An agent whose disk fills while its members' driver does not give what was asked for: the spare, which is there, averts it.
import { randomUUID } from "node:crypto";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "@jest/globals";
import type { FilesystemLayoutSpec, MemberSpec } from "../../../src/contracts/kinds/filesystem-layout.ts";
import { GIB, MIB } from "../../../src/contracts/quantities/quantity.ts";
import { describeReal, STACK_PARTS } from "../../harness/real-parts.ts";
import { waitFor as waitForValue } from "../../harness/wait-for.ts";
import { type AgentUnderTest, startAgentUnderTest, waitFor } from "./agent-under-test.ts";
import { createSpanParts, larger, type SpanParts, type SpanUnderTest, spanUnderTest } from "./span-under-test.ts";

const GRANT: FilesystemLayoutSpec["emergency"] = {
  size: "2Gi",
  minAvailable: "500Mi",
  expiry: new Date(Date.now() + 24 * 3_600_000).toISOString(),
  epoch: 1,
};

describeReal("an agent with a spare member and a driver that gives nothing more", STACK_PARTS, () => {
  let agent: AgentUnderTest;
  let parts: SpanParts;
  let span: SpanUnderTest;
  let m0: MemberSpec;
  let spare: MemberSpec;

  beforeEach(async () => {
    agent = await startAgentUnderTest();
    parts = await createSpanParts(agent);
    span = spanUnderTest(agent, parts, randomUUID());
    await agent.startAgent({}, parts.flags);
    m0 = span.member("m0", GIB);
    spare = { ...span.member("m1", GIB), state: "Spare" };
    await span.applyLayout({ members: [m0] });
    await span.stage();
    await span.applyLayout({ members: [m0, spare], emergency: GRANT });
    await waitFor("the spare", async () => (await span.memberStates()).includes("m1 1Gi Spare"));
  });
  afterEach(async () => {
    await parts.close();
    await agent.dispose();
  });

  it.each<[string, string, () => MemberSpec[]]>([
    ["expands a member on the node", "NodeExpandVolume", () => [larger(m0, "2Gi", "done"), spare]],
    ["stages a new member there", "NodeStageVolume", () => [m0, spare, span.member("m2", GIB)]],
  ])("takes the spare in for one that never %s", async (_what, method, wanted) => {
    let answer = (): void => {};
    const asked = new Promise<void>((resolve) => {
      parts.driver.before.set(method, () => {
        resolve();
        return new Promise<void>((go) => {
          answer = go;
        });
      });
    });
    const target = { size: "2Gi", from: "1Gi", epoch: 1, decidedAt: new Date().toISOString() };
    await span.applyLayout({ members: wanted(), target, emergency: GRANT });
    await asked;
    writeFileSync(join(span.stagingPath, "filled"), Buffer.alloc(500 * MIB));
    // The call of the driver is given up after two minutes, and the extend with it.
    await waitForValue("the emergency extend", () => span.capacityBytes() === 2 * GIB || undefined, {
      limitMs: 60_000,
    });
    await waitFor("the report", async () => (await span.memberStates()).includes("m1 1Gi Present"));
    expect(span.capacityBytes()).toBe(2 * GIB);
    parts.driver.before.clear();
    answer();
  });
});
