// An agent with a spare member: ready beside the filesystem, taken in by a grant while the API server is away, and told of later.
import { execFileSync } from "node:child_process";
import { randomUUID } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "@jest/globals";
import type { SpanRecord } from "../../../src/agent/volumes/node-records.ts";
import type {
  FilesystemLayout,
  FilesystemLayoutSpec,
  MemberSpec,
} from "../../../src/contracts/kinds/filesystem-layout.ts";
import { GIB, MIB } from "../../../src/contracts/quantities/quantity.ts";
import { describeReal, STACK_PARTS } from "../../harness/real-parts.ts";
import { type AgentUnderTest, startAgentUnderTest, waitFor } from "./agent-under-test.ts";
import { createSpanParts, leaving, type SpanParts, type SpanUnderTest, spanUnderTest } from "./span-under-test.ts";

const TOMORROW = new Date(Date.now() + 24 * 3_600_000).toISOString();
const grant = (size: string): FilesystemLayoutSpec["emergency"] => ({
  size,
  minAvailable: "500Mi",
  expiry: TOMORROW,
  epoch: 1,
});
const spare = (member: MemberSpec): MemberSpec => ({ ...member, state: "Spare" });
const target = (size: string, from: string) => ({ size, from, epoch: 1, decidedAt: new Date().toISOString() });
const condition = (layout: FilesystemLayout, type: string) =>
  layout.status?.conditions?.find((one) => one.type === type);

describeReal("an agent with a spare member", STACK_PARTS, () => {
  let agent: AgentUnderTest;
  let parts: SpanParts;
  let span: SpanUnderTest;
  let m0: MemberSpec;
  let m1: MemberSpec;
  const untilStates = (...expected: string[]) =>
    waitFor(expected.join(), async () => (await span.memberStates()).join() === expected.join());
  const record = (): SpanRecord =>
    JSON.parse(readFileSync(join(agent.directory, "state/volumes", `${span.handle}.json`), "utf8")) as SpanRecord;

  beforeAll(async () => {
    agent = await startAgentUnderTest();
    parts = await createSpanParts(agent);
    span = spanUnderTest(agent, parts, randomUUID());
    await agent.startAgent({}, parts.flags);
    m0 = span.member("m0", GIB);
    await span.applyLayout({ members: [m0] });
    await span.stage();
  });
  afterAll(async () => {
    await parts.close();
    await agent.dispose();
  });

  it("says why the spare is not ready, and is fine without", async () => {
    m1 = span.member("m1", GIB);
    parts.driver.refusals.set("NodeStageVolume", { code: 13, details: "the array is on fire" });
    await span.applyLayout({ members: [m0, spare(m1)] });
    await waitFor("why", async () => condition(await span.layout(), "Reconciling")?.reason === "SpareMissing");
    const layout = await span.layout();
    expect(condition(layout, "Reconciling")).toMatchObject({
      status: "False",
      message: expect.stringContaining("the array is on fire"),
    });
    expect(condition(layout, "Ready")?.status).toBe("True");
    expect(condition(layout, "Stalled")?.status).toBe("False");
    parts.driver.refusals.clear();
  });

  it("has the spare ready as soon as its driver lets it, and calls it no part of the filesystem", async () => {
    await untilStates("m0 1Gi Present", "m1 1Gi Spare");
    expect(span.capacityBytes()).toBe(GIB);
    await waitFor("no complaint", async () => condition(await span.layout(), "Reconciling")?.reason !== "SpareMissing");
  });

  it("changes the size while the spare's driver never answers, and has the spare ready once it does", async () => {
    const other = spanUnderTest(agent, parts, randomUUID());
    const [o0, o1, o2] = [other.member("m0", GIB), other.member("m1", GIB), other.member("m2", GIB)];
    await other.applyLayout({ members: [o0] });
    await other.stage();
    let answer = (): void => {};
    const answered = new Promise<void>((resolve) => {
      answer = resolve;
    });
    const { before, requests, calls } = parts.driver;
    before.set("NodeStageVolume", async () => {
      const { volumeId } = requests.get("NodeStageVolume") as { volumeId: string };
      if (volumeId === `${other.handle}-m1`) await answered;
    });
    await other.applyLayout({ members: [o0, spare(o1)] });
    await waitFor("the driver to be asked", () => calls.includes(`NodeStageVolume ${other.handle}-m1`));
    const twoMembers = target("2Gi", "1Gi");
    await other.applyLayout({ members: [o0, spare(o1), o2], target: twoMembers });
    await waitFor("the extend", async () => (await other.layout()).status?.lastOperation?.outcome === "Succeeded");
    expect(other.capacityBytes()).toBe(2 * GIB);
    answer();
    before.clear();
    const states = async () => (await other.layout()).status?.members?.map(({ name, state }) => `${name} ${state}`);
    await waitFor("the spare", async () => (await states())?.join() === "m0 Present,m2 Present,m1 Spare");
    await other.unstage();
  });

  it("has the spare ready while the driver of a member that is to go never takes that one back", async () => {
    const other = spanUnderTest(agent, parts, randomUUID());
    const [o0, o1, o2] = [other.member("m0", GIB), other.member("m1", GIB), other.member("m2", GIB)];
    await other.applyLayout({ members: [o0] });
    await other.stage();
    const { before, refusals, requests, calls } = parts.driver;
    before.set("NodeUnpublishVolume", async () => {
      const { volumeId } = requests.get("NodeUnpublishVolume") as { volumeId: string };
      if (volumeId !== `${other.handle}-m1`) refusals.clear();
      else refusals.set("NodeUnpublishVolume", { code: 13, details: "the array is on fire" });
    });
    await other.applyLayout({ members: [o0, leaving(o1)] });
    await waitFor("the driver to be asked", () => calls.includes(`NodeUnpublishVolume ${other.handle}-m1`));
    await other.applyLayout({ members: [o0, leaving(o1), spare(o2)] });
    await waitFor("the spare", async () => (await other.memberStates()).join() === "m0 1Gi Present,m2 1Gi Spare");
    expect(condition(await other.layout(), "Stalled")?.message).toContain("the array is on fire");
    before.clear();
    refusals.clear();
    await other.unstage();
  });

  it("says what the disk of one carries, complains of no spare, and does not look again at once", async () => {
    const other = spanUnderTest(agent, parts, randomUUID());
    const [o0, o1] = [other.member("m0", GIB), other.member("m1", GIB)];
    execFileSync("mkfs.ext4", ["-q", parts.driver.fileOf(`${other.handle}-m1`)]);
    await other.applyLayout({ members: [o0] });
    await other.stage();
    await other.applyLayout({ members: [o0, spare(o1)] });
    await waitFor("what it carries", async () => (await other.layout()).status?.refused?.[0]?.name === "m1");
    const looks = () => parts.driver.calls.filter((call) => call.endsWith(`${other.handle}-m1`)).length;
    const before = looks();
    // Each of these has the volume looked at, which a grant that is lowered has reported.
    await other.applyLayout({ members: [o0, spare(o1)], emergency: grant("5Gi") });
    for (const size of ["4Gi", "3Gi", "2Gi"]) {
      await other.applyLayout({ members: [o0, spare(o1)], emergency: grant(size) });
      const { generation } = (await other.layout()).metadata;
      await waitFor("a look", async () => (await other.layout()).status?.observedGeneration === generation);
    }
    const layout = await other.layout();
    expect(layout.status?.refused?.[0]?.message).toContain("carries a ext4 signature");
    expect(condition(layout, "Reconciling")?.reason).not.toBe("SpareMissing");
    expect(looks()).toBe(before);
    await other.unstage();
  });

  it("takes it in at once for a target whose layout calls it a member, with nothing asked of its driver", async () => {
    const before = parts.driver.calls.length;
    await span.applyLayout({ members: [m0, m1], target: target("2Gi", "1Gi") });
    await untilStates("m0 1Gi Present", "m1 1Gi Present");
    expect(span.capacityBytes()).toBe(2 * GIB);
    expect(parts.driver.calls.slice(before)).toEqual([]);
  });

  it("leaves a spare alone that is larger than what is granted", async () => {
    const m2 = span.member("m2", 3 * GIB);
    await span.applyLayout({ members: [m0, m1, spare(m2)], emergency: grant("3Gi") });
    await untilStates("m0 1Gi Present", "m1 1Gi Present", "m2 3Gi Spare");
    const filled = join(span.stagingPath, "filled");
    writeFileSync(filled, Buffer.alloc(1200 * MIB));
    await waitFor("a reading", () =>
      agent.samples.some(({ capacityBytes, availableBytes }) => capacityBytes - availableBytes > 1100 * MIB),
    );
    expect(span.capacityBytes()).toBe(2 * GIB);
    await span.applyLayout({ members: [m0, m1, { ...m2, state: "Removed" }], emergency: grant("3Gi") });
    await untilStates("m0 1Gi Present", "m1 1Gi Present", "m2 3Gi Removed");
    expect(parts.driver.deviceOf(`${span.handle}-m2`)).toBeUndefined();
    await span.applyLayout({ members: [m0, m1], emergency: grant("3Gi") });
    await untilStates("m0 1Gi Present", "m1 1Gi Present");
  });

  it("takes the spare in with API server and member driver away, and keeps that on its record", async () => {
    const m3 = span.member("m3", GIB);
    await span.applyLayout({ members: [m0, m1, spare(m3)], emergency: grant("3Gi") });
    await untilStates("m0 1Gi Present", "m1 1Gi Present", "m3 1Gi Spare");
    await waitFor("the grant", () => record().grant?.size === "3Gi");
    expect(record().members.map(({ wanted }) => wanted)).toEqual(["Present", "Present", "Spare"]);
    await parts.driver.stop();
    await agent.stopControlPlane();
    writeFileSync(join(span.stagingPath, "more"), Buffer.alloc(500 * MIB));
    await waitFor("the emergency extend", () => span.capacityBytes() === 3 * GIB);
    await waitFor("its record", () => record().lastOperation?.emergency === true);
    expect(record()).toMatchObject({
      members: [{ name: "m0" }, { name: "m1" }, { name: "m3", wanted: "Present", taken: true }],
      lastOperation: { outcome: "Succeeded", reason: "EmergencySpent", reached: "3Gi" },
    });
  });
});
