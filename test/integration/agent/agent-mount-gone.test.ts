// A pod that comes to a node whose unstage has failed behind its unmount, or where somebody has unmounted the volume by hand: it gets the
// filesystem or an error, never the plain directory, in which it would write to the node's own disk.
import { execFileSync, spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { closeSync, existsSync, mkdirSync, openSync, readFileSync, readlinkSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { status } from "@grpc/grpc-js";
import { afterAll, beforeAll, expect, it } from "@jest/globals";
import { loopDevicesUnder, mountsUnder } from "../../../demo/show/run/mount-table.ts";
import { GIB } from "../../../src/contracts/quantities/quantity.ts";
import { describeReal, STACK_PARTS } from "../../harness/real-parts.ts";
import {
  type AgentUnderTest,
  startAgentUnderTest,
  type VolumeUnderTest,
  volumeUnderTest,
  waitFor,
} from "./agent-under-test.ts";
import { createSpanParts, type SpanParts, type SpanUnderTest, spanUnderTest } from "./span-under-test.ts";

const DATA = "written by the pod";

/** What its pod does, and its end. */
async function live({ publish, unpublish, stage, targetPath }: SpanUnderTest | VolumeUnderTest): Promise<void> {
  await stage();
  await publish();
  writeFileSync(join(targetPath, "file"), DATA);
  await unpublish();
}

describeReal("a pod that comes back", STACK_PARTS, () => {
  let agent: AgentUnderTest;
  let parts: SpanParts;
  let span: SpanUnderTest;

  beforeAll(async () => {
    agent = await startAgentUnderTest();
    parts = await createSpanParts(agent);
    await agent.startAgent({}, parts.flags);
    span = spanUnderTest(agent, parts, randomUUID());
    const members = [span.member("m0", GIB), span.member("m1", GIB)];
    await span.applyLayout({
      members,
      target: { size: "2Gi", from: "1Gi", epoch: 1, decidedAt: new Date().toISOString() },
    });
    await live(span);
    await waitFor("both members", async () => span.capacityBytes() === 2 * GIB);
  });
  afterAll(async () => {
    await agent.dispose();
    await parts.close();
  });

  const statusOf = async () => {
    const { mounted, conditions = [] } = (await span.layout()).status ?? {};
    const messages = conditions.map(
      ({ type, status: holds, reason, message }) => `${type} ${holds} ${reason} ${message}`,
    );
    return { mounted, messages: messages.join("\n") };
  };

  it("is refused while a member's driver does not take it back, and the members stay this node's", async () => {
    parts.driver.refusals.set("NodeUnstageVolume", { code: status.INTERNAL, details: "the array is on fire" });
    await expect(span.unstage()).rejects.toThrow("the array is on fire");
    expect(mountsUnder(span.stagingPath)).toEqual([]);
    await waitFor("the report", async () => (await statusOf()).messages.includes("not mounted; this node still has"));
    const { mounted, messages } = await statusOf();
    expect(mounted).toBe(true);
    expect(messages).toContain("Reconciling True MembersHeld");
    await expect(span.publish()).rejects.toThrow("the array is on fire");
    await expect(span.stage()).rejects.toThrow("the array is on fire");
    expect(existsSync(span.targetPath)).toBe(false);
  });

  it("gets the filesystem once that driver answers", async () => {
    parts.driver.refusals.clear();
    await span.stage();
    await span.publish();
    expect(readFileSync(join(span.targetPath, "file"), "utf8")).toBe(DATA);
    await span.unpublish();
  });

  it("finds the members given back where the agent has done the rest by itself", async () => {
    parts.driver.refusals.set("NodeUnstageVolume", { code: status.INTERNAL, details: "the array is on fire" });
    await expect(span.unstage()).rejects.toThrow("the array is on fire");
    parts.driver.refusals.clear();
    await waitFor("the rest", async () => (await statusOf()).mounted === false);
    expect(parts.driver.deviceOf(`${span.handle}-m0`)).toBeUndefined();
    await live(span);
    await span.unstage();
  });

  it("leaves the members this node's until they are given back, also where the node has lost its records", async () => {
    await span.stage();
    await agent.killAgent();
    rmSync(join(agent.directory, "state"), { recursive: true });
    await agent.startAgent({}, parts.flags);
    await span.publish();
    await span.unpublish();
    parts.driver.refusals.set("NodeUnstageVolume", { code: status.INTERNAL, details: "the array is on fire" });
    await expect(span.unstage()).rejects.toThrow("the array is on fire");
    await waitFor("the report", async () => (await statusOf()).messages.includes("not mounted"));
    expect(await statusOf()).toMatchObject({ mounted: true, messages: expect.stringContaining("this node still has") });
    parts.driver.refusals.clear();
    await waitFor("the rest", async () => (await statusOf()).mounted === false);
    expect(parts.driver.deviceOf(`${span.handle}-m0`)).toBeUndefined();
  });

  it("leaves them this node's where only another mount namespace has it, also where the node has lost its records", async () => {
    await span.stage();
    await agent.killAgent();
    const elsewhere = spawn("unshare", ["--mount", "sleep", "infinity"]);
    const namespaceOf = (process: string): string => readlinkSync(`/proc/${process}/ns/mnt`);
    try {
      await waitFor("the namespace", async () => namespaceOf(`${elsewhere.pid}`) !== namespaceOf("self"));
      execFileSync("umount", [span.stagingPath]);
      rmSync(join(agent.directory, "state"), { recursive: true });
      await agent.startAgent({}, parts.flags);
      await waitFor("the report", async () => (await statusOf()).messages.includes("another mount namespace too"));
      expect(await statusOf()).toMatchObject({
        mounted: true,
        messages: expect.stringContaining("this node still has"),
      });
      expect(parts.driver.deviceOf(`${span.handle}-m0`)).toBeDefined();
    } finally {
      elsewhere.kill();
    }
    await waitFor("the rest", async () => (await statusOf()).mounted === false);
    expect(parts.driver.deviceOf(`${span.handle}-m0`)).toBeUndefined();
  });

  it("gets the filesystem while somebody has a disk mounted that was refused, which is named, and given back once it is free", async () => {
    const { members = [] } = (await span.layout()).spec;
    const refused = span.member("m2", GIB);
    execFileSync("mkfs.ext4", ["-q", parts.driver.fileOf(`${span.handle}-m2`)]);
    await span.applyLayout({ members: [...members, { ...refused, state: "Spare" }] });
    await span.stage();
    await waitFor("the refusal", async () => (await span.layout()).status?.refused?.[0]?.name === "m2");
    const foreign = join(agent.directory, "foreign");
    mkdirSync(foreign);
    execFileSync("mount", [parts.driver.deviceOf(`${span.handle}-m2`) ?? "", foreign]);
    await expect(span.unstage()).rejects.toThrow("end what holds member m2");
    await waitFor("its name", async () => (await statusOf()).messages.includes("end what holds member m2"));
    expect((await statusOf()).mounted).toBe(true);
    expect(parts.driver.deviceOf(`${span.handle}-m0`)).toBeUndefined();
    await live(span);
    await expect(span.unstage()).rejects.toThrow("end what holds member m2");
    execFileSync("umount", [foreign]);
    await waitFor("the rest", async () => (await statusOf()).mounted === false);
    expect(parts.driver.deviceOf(`${span.handle}-m2`)).toBeUndefined();
    await span.applyLayout({ members });
  });

  it("gets the filesystem where a loop device could not be detached", async () => {
    const volume = volumeUnderTest(agent, randomUUID(), "1Gi");
    await volume.applyLayout();
    await live(volume);
    const [device = ""] = loopDevicesUnder(join(agent.directory, "members"));
    const open = openSync(device, "r");
    await expect(volume.unstage()).rejects.toThrow("still open");
    expect(mountsUnder(volume.stagingPath)).toEqual([]);
    await expect(volume.publish()).rejects.toMatchObject({ code: status.FAILED_PRECONDITION });
    closeSync(open);
    await volume.stage();
    await volume.publish();
    expect(readFileSync(join(volume.targetPath, "file"), "utf8")).toBe(DATA);
    await volume.unpublish();
    await volume.unstage();
  });

  it.each(["span", "loop"])(
    "is refused where somebody has unmounted the %s by hand, until it is staged anew",
    async (kind) => {
      const loop = volumeUnderTest(agent, randomUUID(), "1Gi");
      if (kind === "loop") await loop.applyLayout();
      const volume = kind === "loop" ? loop : span;
      await live(volume);
      execFileSync("umount", [volume.stagingPath]);
      await expect(volume.publish()).rejects.toMatchObject({
        code: status.FAILED_PRECONDITION,
        details: expect.stringContaining("kubelet stages it again: nothing is mounted"),
      });
      expect(existsSync(volume.targetPath)).toBe(false);
      await volume.stage();
      await volume.publish();
      expect(readFileSync(join(volume.targetPath, "file"), "utf8")).toBe(DATA);
      await volume.unpublish();
      await volume.unstage();
    },
  );
});
