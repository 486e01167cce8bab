// A node whose disk has no room for the agent's own records, a tiny filesystem of memory that is filled to the last byte; and one on which
// somebody has removed them.
import { execFileSync } from "node:child_process";
import { randomUUID } from "node:crypto";
import { closeSync, mkdirSync, openSync, readFileSync, rmSync, statSync, writeSync } from "node:fs";
import { join } from "node:path";
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

const SETUP_LIMIT_MS = 60_000;
const TEST_LIMIT_MS = 60_000;
const STATE_DISK_BYTES = 64 * 1024;
const target = { size: "2Gi", from: "1Gi", epoch: 1, decidedAt: new Date().toISOString() };

describeReal("an agent that cannot write its records", STACK_PARTS, () => {
  let agent: AgentUnderTest;
  let volume: VolumeUnderTest;
  let stateDirectory: string;
  let ballast: string;
  const stalled = () => volume.condition("Stalled");
  const recordText = () => readFileSync(join(stateDirectory, "volumes", `${volume.handle}.json`), "utf8");

  beforeAll(async () => {
    agent = await startAgentUnderTest();
    stateDirectory = join(agent.directory, "state");
    ballast = join(stateDirectory, "ballast");
    mkdirSync(stateDirectory);
    execFileSync("mount", ["-t", "tmpfs", "-o", `size=${STATE_DISK_BYTES}`, "tidemark-test", stateDirectory]);
    await agent.startAgent();
    volume = volumeUnderTest(agent, randomUUID(), "1Gi");
    await volume.applyLayout();
    await volume.stage();
    await waitFor("the first status", async () => (await stalled())?.status === "False");
    fill(ballast);
  }, SETUP_LIMIT_MS);
  afterAll(async () => {
    await agent.dispose();
  }, SETUP_LIMIT_MS);

  it(
    "says on the layout what is wrong and what to do",
    async () => {
      await volume.applyLayout({ target });
      await waitFor("the condition", async () => (await stalled())?.reason === "RecordNotWritten");
      const { status, message } = (await stalled()) ?? {};
      expect(status).toBe("True");
      expect(message).toMatch(/^free space or inodes .df, df -i.*ENOSPC.*retrying/);
    },
    TEST_LIMIT_MS,
  );

  it(
    "tries again, at longer and longer intervals, and begins no operation meanwhile",
    async () => {
      await waitFor("three attempts in a row", () => failuresInARow(agent.log(), volume.handle) >= 3);
      expect(volume.capacityBytes()).toBe(GIB);
      expect(statSync(volume.memberPath).size).toBe(GIB);
      await waitFor("no operation to be told of", async () => (await volume.layout()).status?.operation === undefined);
      expect(JSON.parse(recordText())).not.toHaveProperty("operation");
    },
    TEST_LIMIT_MS,
  );

  it(
    "goes on by itself as soon as there is room",
    async () => {
      rmSync(ballast);
      await waitFor("the extend", async () => (await volume.layout()).status?.lastOperation?.outcome === "Succeeded");
      expect(volume.capacityBytes()).toBe(2 * GIB);
      await waitFor("the condition to go", async () => (await stalled())?.status === "False");
      await waitFor("the end on the disk, which may be told before", () => recordText().includes('"lastOperation"'));
      expect(JSON.parse(recordText())).toMatchObject({ lastOperation: { kind: "Extend", reached: "2Gi" } });
    },
    TEST_LIMIT_MS,
  );

  it(
    "makes the directories of its records and locks again when somebody has removed them",
    async () => {
      for (const name of ["volumes", "locks"]) rmSync(join(stateDirectory, name), { recursive: true });
      await volume.applyLayout({
        target: { ...target, size: "3Gi", from: "2Gi", decidedAt: new Date().toISOString() },
      });
      await waitFor("the extend", async () => (await volume.layout()).status?.lastOperation?.reached === "3Gi");
      await waitFor("its end on the disk", () => recordText().includes('"reached": "3Gi"'));
      const other = volumeUnderTest(agent, randomUUID(), "1Gi");
      await other.applyLayout();
      await other.stage();
      expect(other.capacityBytes()).toBe(GIB);
    },
    TEST_LIMIT_MS,
  );

  it(
    "writes a grant down later that it could not write down when it came",
    async () => {
      fill(ballast);
      await volume.applyGrant({ size: "4Gi", minAvailable: "1Mi", expiry: "2099-01-01T00:00:00Z", epoch: 1 });
      await waitFor("the condition", async () => (await stalled())?.reason === "RecordNotWritten");
      expect(JSON.parse(recordText())).not.toHaveProperty("grant");
      rmSync(ballast);
      await waitFor("the grant on the disk", () => recordText().includes('"minAvailable"'));
      await waitFor("the condition to go", async () => (await stalled())?.status === "False");
    },
    TEST_LIMIT_MS,
  );
});

/** As the queue counts them: each waits longer than the one before. */
function failuresInARow(log: string, handle: string): number {
  const counts = log
    .split("\n")
    .filter((line) => line.includes('"failures"') && line.includes(handle))
    .map((line) => (JSON.parse(line) as { failures: number }).failures);
  return counts.at(-1) ?? 0;
}

/** Until the filesystem takes no more. */
function fill(path: string): void {
  const file = openSync(path, "w");
  try {
    for (;;) writeSync(file, Buffer.alloc(1024, 1));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ENOSPC") throw error;
  } finally {
    closeSync(file);
  }
}
