// The agent without root or loop devices: the same line on the simulated disk.
import { randomUUID } from "node:crypto";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "@jest/globals";
import { GIB, MIB } from "../../../src/contracts/quantities/quantity.ts";
import {
  type AgentUnderTest,
  startAgentUnderTest,
  type VolumeUnderTest,
  volumeUnderTest,
  waitFor,
} from "./agent-under-test.ts";

/** A burst of more than this would be taken for a writer whose reserve stops the shrink. */
const WRITTEN_BYTES = 32 * MIB;
const target = (size: string, from: string) => ({ size, from, epoch: 1, decidedAt: new Date().toISOString() });

describe("an agent on the simulated disk", () => {
  let agent: AgentUnderTest;
  let volume: VolumeUnderTest;
  const newest = () => agent.samples.at(-1);
  const lastOperation = async () => (await volume.layout()).status?.lastOperation;

  beforeAll(async () => {
    agent = await startAgentUnderTest();
    await agent.startAgent({}, { storage: "simulated" });
    volume = volumeUnderTest(agent, randomUUID(), "1Gi");
    await volume.applyLayout();
    await volume.stage();
  });
  afterAll(async () => {
    await agent.dispose();
  });

  it("shows the volume in the pod's directory and samples what is written there", async () => {
    await volume.publish();
    writeFileSync(join(volume.targetPath, "file"), Buffer.alloc(WRITTEN_BYTES, 1));
    await waitFor("the use to be seen", () => (newest()?.availableBytes ?? GIB) < GIB - WRITTEN_BYTES);
    expect(newest()?.capacityBytes).toBe(GIB);
  });

  it("extends and shrinks it by the same targets", async () => {
    await volume.applyLayout({ target: target("2Gi", "1Gi") });
    await waitFor("the end of the extend", async () => (await lastOperation())?.kind === "Extend");
    expect(await lastOperation()).toMatchObject({ outcome: "Succeeded", reached: "2Gi" });
    await waitFor("a sample of it", () => newest()?.capacityBytes === 2 * GIB);
    await volume.applyLayout({ target: target("1Gi", "2Gi") });
    await waitFor("the end of the shrink", async () => (await lastOperation())?.kind === "Shrink");
    expect(await lastOperation()).toMatchObject({ outcome: "Succeeded", reached: "1Gi" });
    await waitFor("a sample of it", () => newest()?.capacityBytes === GIB);
  });

  it("takes away the pod's view and keeps the data", async () => {
    await volume.unpublish();
    expect(existsSync(volume.targetPath)).toBe(false);
    await volume.unstage();
    await volume.stage();
    expect(readFileSync(join(volume.stagingPath, "file"))).toHaveLength(WRITTEN_BYTES);
  });
});
