// What an agent with a span is given that it must not use: a device with somebody else's filesystem, a copy of another member, a member
// that is gone, a disk of its own that takes no record. Each is told on the layout, and nothing is lost.
import { execFileSync } from "node:child_process";
import { randomUUID } from "node:crypto";
import { closeSync, mkdirSync, openSync, readFileSync, renameSync, rmSync, writeFileSync, writeSync } from "node:fs";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, expect, it } from "@jest/globals";
import type { MemberSpec } from "../../../src/contracts/kinds/filesystem-layout.ts";
import { GIB } from "../../../src/contracts/quantities/quantity.ts";
import { describeReal, STACK_PARTS } from "../../harness/real-parts.ts";
import { eventually } from "../../harness/wait-for.ts";
import { type AgentUnderTest, startAgentUnderTest, waitFor } from "./agent-under-test.ts";
import { createSpanParts, leaving, type SpanParts, type SpanUnderTest, spanUnderTest } from "./span-under-test.ts";

const STATE_DISK_BYTES = 64 * 1024;
const LOOK_INTERVAL_MS = 200;
const QUIET_LOOKS = 3;
const SETUP_LIMIT_MS = 60_000;
/** No loop device has this number. */
const NO_DISK = ["b", "7", "1048000"] as const;
const target = (size: string, from: string) => ({ size, from, epoch: 1, decidedAt: new Date().toISOString() });

describeReal("an agent with a span that cannot be used as it is", STACK_PARTS, () => {
  let agent: AgentUnderTest;
  let parts: SpanParts;
  let span: SpanUnderTest;
  let m0: MemberSpec;
  let m1: MemberSpec;
  let ballast: string;

  beforeAll(async () => {
    agent = await startAgentUnderTest();
    const stateDirectory = join(agent.directory, "state");
    ballast = join(stateDirectory, "ballast");
    mkdirSync(stateDirectory);
    execFileSync("mount", ["-t", "tmpfs", "-o", `size=${STATE_DISK_BYTES}`, "tidemark-test", stateDirectory]);
    parts = await createSpanParts(agent);
    await agent.startAgent({}, parts.flags);
  }, SETUP_LIMIT_MS);
  afterAll(async () => {
    await parts.close();
    await agent.dispose();
  }, SETUP_LIMIT_MS);

  beforeEach(() => {
    span = spanUnderTest(agent, parts, randomUUID());
    m0 = span.member("m0", GIB);
    m1 = span.member("m1", GIB);
  });
  afterEach(async () => {
    rmSync(ballast, { force: true });
    await span.unstage();
  });

  const fileOf = ({ name }: MemberSpec): string => join(agent.directory, "driver/volumes", `${span.handle}-${name}`);
  const deviceOf = ({ name }: MemberSpec): string | undefined => parts.driver.deviceOf(`${span.handle}-${name}`);
  const status = async () => (await span.layout()).status;
  const stalled = async () => (await status())?.conditions?.find(({ type }) => type === "Stalled");
  const signaturesOf = (member: MemberSpec): string =>
    execFileSync("wipefs", ["--noheadings", "--output", "TYPE", fileOf(member)], { encoding: "utf8" }).trim();
  const given = async (member: MemberSpec): Promise<void> => {
    await waitFor(`${member.name} to be given back`, () => deviceOf(member) === undefined);
    await waitFor("not mounted", async () => (await status())?.mounted === false);
  };

  /** Both members in the filesystem, and its layout says which devices they are. */
  async function stageBoth(): Promise<void> {
    await span.applyLayout({ members: [m0] });
    await span.stage();
    await span.applyLayout({ members: [m0, m1], target: target("2Gi", "1Gi") });
    const uuids = async () => (await status())?.members?.filter(({ deviceUUID }) => deviceUUID !== undefined);
    await waitFor("both members", async () => (await uuids())?.length === 2);
    writeFileSync(join(span.stagingPath, "file"), "still here");
  }

  it("leaves a first member alone that carries somebody else's filesystem, and says whose", async () => {
    execFileSync("mkfs.ext4", ["-q", fileOf(m0)]);
    await span.applyLayout({ members: [m0] });
    await expect(span.stage()).rejects.toMatchObject({ details: expect.stringContaining("ext4 signature") });
    await waitFor("the condition", async () => (await stalled())?.reason === "SignatureFound");
    expect((await stalled())?.message).toContain(`Delete that claim if its data is not needed`);
    await given(m0);
    expect(signaturesOf(m0)).toBe("ext4");
  });

  it("adds no member that carries somebody else's filesystem, and the one in use stays as it is", async () => {
    execFileSync("mkfs.ext4", ["-q", fileOf(m1)]);
    await span.applyLayout({ members: [m0] });
    await span.stage();
    await span.applyLayout({ members: [m0, m1], target: target("2Gi", "1Gi") });
    await waitFor("the condition", async () => (await stalled())?.reason === "ResizeFailed");
    expect((await stalled())?.message).toContain("member m1");
    expect((await stalled())?.message).toContain("ext4 signature");
    expect(span.capacityBytes()).toBe(GIB);
    expect(signaturesOf(m1)).toBe("ext4");
  });

  it("mounts nothing where a member is a copy of another by now, and says which device was reported of it", async () => {
    await stageBoth();
    await span.unstage();
    renameSync(fileOf(m1), `${fileOf(m1)}.own`);
    execFileSync("cp", ["--sparse=always", fileOf(m0), fileOf(m1)]);
    await expect(span.stage()).rejects.toMatchObject({
      details: expect.stringMatching(/-m1: device 1 .* came, not 2 /),
    });
    await waitFor("the condition", async () => (await stalled())?.reason === "MembersMissing");
    await given(m1);
    renameSync(`${fileOf(m1)}.own`, fileOf(m1));
    await span.stage();
    expect(readFileSync(join(span.stagingPath, "file"), "utf8")).toBe("still here");
    await waitFor("all is well", async () => (await stalled())?.status === "False");
  });

  it("mounts nothing without a member whose volume has vanished, and goes on when it is back", async () => {
    await stageBoth();
    await span.unstage();
    renameSync(fileOf(m1), `${fileOf(m1)}.away`);
    await expect(span.stage()).rejects.toMatchObject({ details: expect.stringContaining(`${span.handle}-m1`) });
    await waitFor("the condition", async () => (await stalled())?.reason === "MountFailed");
    await given(m0);
    renameSync(`${fileOf(m1)}.away`, fileOf(m1));
    await span.stage();
    expect(readFileSync(join(span.stagingPath, "file"), "utf8")).toBe("still here");
  });

  it("says that the disk of a member has vanished while it is in use, and takes nothing out of it then", async () => {
    await stageBoth();
    const published = join(agent.directory, "kubelet/plugins/span.tidemark.dev", span.handle, "m1/device");
    const gone = join(agent.directory, "gone");
    execFileSync("mknod", [gone, ...NO_DISK]);
    execFileSync("mount", ["--bind", gone, published]);
    await span.applyLayout({ members: [m0, leaving(m1)], target: target("1Gi", "2Gi") });
    await waitFor("the condition", async () => (await stalled())?.reason === "MembersMissing");
    expect((await stalled())?.message).toMatch(/m1\/device leads to block device 7:1048000, which has vanished/);
    expect(span.capacityBytes()).toBe(2 * GIB);
    expect((await status())?.members?.map(({ state }) => state)).toEqual(["Present", "Present"]);
    execFileSync("umount", [published]);
    await span.applyLayout({ members: [m0, m1], target: target("2Gi", "2Gi") });
    await span.unstage();
    await span.stage();
    expect(readFileSync(join(span.stagingPath, "file"), "utf8")).toBe("still here");
  });

  it("makes no filesystem while its node's disk takes no record, says so, and lets another node have it", async () => {
    await fill(ballast);
    await span.applyLayout({ members: [m0] });
    await expect(span.stage()).rejects.toMatchObject({ details: expect.stringContaining("ENOSPC") });
    await waitFor("the condition", async () => (await stalled())?.reason === "RecordNotWritten");
    await expect(span.stage()).rejects.toMatchObject({ details: expect.stringContaining("ENOSPC") });
    await given(m0);
    expect(signaturesOf(m0)).toBe("");
    rmSync(ballast);
    await span.stage();
    expect(span.capacityBytes()).toBe(GIB);
    await waitFor("all is well", async () => (await stalled())?.status === "False");
  });

  it("takes no member out while its node's disk takes no record", async () => {
    await stageBoth();
    await fill(ballast);
    await span.applyLayout({ members: [m0, leaving(m1)], target: target("1Gi", "2Gi") });
    await waitFor("the condition", async () => (await stalled())?.reason === "RecordNotWritten");
    expect(span.capacityBytes()).toBe(2 * GIB);
    rmSync(ballast);
    await waitFor("the shrink", async () => (await status())?.lastOperation?.reached === "1Gi");
    expect(readFileSync(join(span.stagingPath, "file"), "utf8")).toBe("still here");
    await waitFor("Removed", async () => (await status())?.members?.some(({ state }) => state === "Removed") === true);
  });
});

/** Until the filesystem takes no more, also when what the agent was still writing then has been put in the place of an older record. */
async function fill(path: string): Promise<void> {
  let quietLooks = 0;
  const isFull = (): boolean => {
    quietLooks = append(path) === 0 ? quietLooks + 1 : 0;
    return quietLooks === QUIET_LOOKS;
  };
  await eventually("a full filesystem", isFull, { intervalMs: LOOK_INTERVAL_MS });
}

/** Returns the bytes that the filesystem has still taken. */
function append(path: string): number {
  const file = openSync(path, "a");
  let appendedBytes = 0;
  try {
    for (;;) appendedBytes += writeSync(file, Buffer.alloc(1024, 1));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ENOSPC") throw error;
  } finally {
    closeSync(file);
  }
  return appendedBytes;
}
