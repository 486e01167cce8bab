// The agent without root or loop devices: the same line on the simulated disk.
import { randomUUID } from "node:crypto";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it, jest } from "@jest/globals";
import { GIB, MIB } from "../../../src/units/quantity.ts";
import {
  type AgentUnderTest,
  startAgentUnderTest,
  type VolumeUnderTest,
  volumeUnderTest,
  waitFor,
} from "./agent-under-test.ts";

jest.setTimeout(60_000);
const target = (size: string, from: string) => ({ size, from, epoch: 1, decidedAt: new Date().toISOString() });

describe("an agent on the simulated disk", () => {
  let agent: AgentUnderTest;
  let volume: VolumeUnderTest;
  const newest = () => agent.samples.at(-1);

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
    writeFileSync(join(volume.targetPath, "file"), Buffer.alloc(100 * MIB, 1));
    await waitFor("the use to be seen", () => (newest()?.availableBytes ?? GIB) < 925 * MIB);
    expect(newest()?.capacityBytes).toBe(GIB);
  });

  it("extends and shrinks it by the same targets", async () => {
    await volume.applyLayout({ target: target("2Gi", "1Gi") });
    await waitFor("the extend", () => newest()?.capacityBytes === 2 * GIB);
    await volume.applyLayout({ target: target("1Gi", "2Gi") });
    await waitFor("the shrink", () => newest()?.capacityBytes === GIB);
    expect((await volume.layout()).status?.lastOperation).toMatchObject({ kind: "Shrink", outcome: "Succeeded" });
  });

  it("takes away the pod's view and keeps the data", async () => {
    await volume.unpublish();
    expect(existsSync(volume.targetPath)).toBe(false);
    await volume.unstage();
    await volume.stage();
    expect(readFileSync(join(volume.stagingPath, "file"))).toHaveLength(100 * MIB);
  });
});
