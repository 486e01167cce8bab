// A filesystem that somebody remounts read-only under the agent, as the kernel does after an error: before an extend, an emergency and a
// shrink, and in the middle of a shrink.
import { execFileSync, spawnSync } from "node:child_process";
import { randomBytes, randomUUID } from "node:crypto";
import { readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { afterEach, beforeEach, expect, it } from "@jest/globals";
import { formatQuantity, GIB, MIB, parseQuantity } from "../../../src/contracts/quantities/quantity.ts";
import { freshMetrics } from "../../harness/fresh-metrics.ts";
import { describeReal, STACK_PARTS } from "../../harness/real-parts.ts";
import {
  type AgentUnderTest,
  startAgentUnderTest,
  type VolumeUnderTest,
  volumeUnderTest,
  waitFor,
} from "./agent-under-test.ts";
import { freezeFilesystem } from "./frozen-filesystem.ts";

const target = (size: string, from: string) => ({ size, from, epoch: 1, decidedAt: new Date().toISOString() });
/** Several looks at the mounts, and several retries of an emergency that fails. */
const QUIET_MS = 5000;
const FILES = 4;

describeReal("a filesystem that is remounted read-only", STACK_PARTS, () => {
  let agent: AgentUnderTest;
  let volume: VolumeUnderTest;
  const statusNow = async () => (await volume.layout()).status;
  /** The kernel makes nothing read-only while an ioctl of a shrink's step is in it. */
  const remount = (option: "ro" | "rw") =>
    waitFor(`the remount ${option}`, () => {
      const options = ["--options", `remount,${option}`, volume.stagingPath];
      return spawnSync("mount", options, { stdio: "pipe" }).status === 0;
    });
  const isStalled = (reason: string) =>
    waitFor(`Stalled to be ${reason}`, async () => (await volume.condition("Stalled"))?.reason === reason);

  beforeEach(async () => {
    agent = await startAgentUnderTest();
    await agent.startAgent();
    volume = volumeUnderTest(agent, randomUUID(), "6Gi");
    await volume.applyLayout();
    await volume.stage();
  });
  afterEach(async () => {
    await agent.dispose();
  });

  it("says so with what to do, begins nothing meanwhile, and goes on once it is writable", async () => {
    await waitFor("a first reading", () => agent.samples.length > 0);
    const before = Date.now();
    await remount("ro");
    await isStalled("ReadOnly");
    const { status, message, lastTransitionTime = "" } = (await volume.condition("Ready")) ?? {};
    expect(status).toBe("False");
    expect(message).toMatch(/dmesg.*read-only|dmesg.*mount -o remount,rw/);
    // Of whole seconds.
    expect(Date.parse(lastTransitionTime)).toBeGreaterThan(before - 1000);
    expect(await freshMetrics(agent.metricsUrl)).toContain("tidemark_agent_read_only_filesystems 1\n");

    await volume.applyLayout({ target: target("7Gi", "6Gi") });
    await pause(QUIET_MS);
    expect((await statusNow())?.lastOperation).toBeUndefined();
    expect((await statusNow())?.operation).toBeUndefined();
    expect(statSync(volume.memberPath).size).toBe(6 * GIB);

    await remount("rw");
    await waitFor("the extend", async () => (await statusNow())?.lastOperation?.outcome === "Succeeded");
    expect(volume.capacityBytes()).toBe(7 * GIB);
    await waitFor("the condition to go", async () => (await volume.condition("Stalled"))?.status === "False");
  });

  it("spends no grant, and fails none again and again; it is spent as soon as there can be room", async () => {
    await remount("ro");
    // More than can be available: each reading crosses it.
    const expiry = new Date(Date.now() + 3_600_000).toISOString();
    await volume.applyGrant({ size: "7Gi", minAvailable: "7Gi", expiry, epoch: 1 });
    await isStalled("ReadOnly");
    await pause(QUIET_MS);
    expect((await statusNow())?.lastOperation).toBeUndefined();
    expect(statSync(volume.memberPath).size).toBe(6 * GIB);
    await remount("rw");
    await waitFor("the emergency", async () => (await statusNow())?.lastOperation?.emergency === true);
    expect((await statusNow())?.lastOperation).toMatchObject({ outcome: "Succeeded", reached: "7Gi" });
    expect(volume.capacityBytes()).toBe(7 * GIB);
  });

  it("ends a shrink in its midst as failed, with that reason; the filesystem fits its member, and shrinks on later", async () => {
    const data = randomBytes(64 * MIB);
    for (let index = 0; index < FILES; index += 1) writeFileSync(join(volume.stagingPath, `file-${index}`), data);
    execFileSync("sync", ["--file-system", volume.stagingPath]);
    const frozen = freezeFilesystem(volume.stagingPath);
    try {
      await volume.applyLayout({ target: target("2Gi", "6Gi") });
      await waitFor("the shrink's first step", () => frozen.holdsResize());
    } finally {
      frozen.thaw();
    }
    await remount("ro");
    await waitFor("the shrink's end", async () => (await statusNow())?.lastOperation !== undefined);
    const ended = (await statusNow())?.lastOperation;
    expect(ended).toMatchObject({ kind: "Shrink", outcome: "Failed" });
    expect(ended?.message).toContain("is read-only");
    await isStalled("ReadOnly");
    expect(volume.capacityBytes()).toBeLessThanOrEqual(statSync(volume.memberPath).size);
    await pause(QUIET_MS);
    expect((await statusNow())?.lastOperation).toEqual(ended);

    await remount("rw");
    await waitFor("both to be of one size", () => volume.capacityBytes() === statSync(volume.memberPath).size);
    await waitFor("the reason to go", async () => (await volume.condition("Stalled"))?.reason !== "ReadOnly");
    const from = (await statusNow())?.members?.[0]?.size ?? "";
    expect(parseQuantity(from)).toBe(volume.capacityBytes());
    await volume.applyLayout({ target: target(formatQuantity(parseQuantity(from) - 256 * MIB), from) });
    await waitFor("the next shrink", async () => (await statusNow())?.lastOperation?.endedAt !== ended?.endedAt);
    expect((await statusNow())?.lastOperation).toMatchObject({ kind: "Shrink", outcome: "Succeeded" });
    for (let index = 0; index < FILES; index += 1)
      expect(readFileSync(join(volume.stagingPath, `file-${index}`)).equals(data)).toBe(true);
  });
});
