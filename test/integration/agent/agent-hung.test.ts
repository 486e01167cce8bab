// Filesystems that never answer, among one that does.
import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, expect, it } from "@jest/globals";
import type { NodeGetVolumeStatsResponse } from "../../../src/contracts/gen/csi/v1/csi.ts";
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

const HUNG_COUNT = 5;

describeReal("five filesystems that do not answer", STACK_PARTS, () => {
  let agent: AgentUnderTest;
  let well: VolumeUnderTest;
  let ill: VolumeUnderTest[];
  let hung: HungMount[] = [];
  const reasonOf = async (volume: VolumeUnderTest) => (await volume.condition("Ready"))?.reason;
  const stats = (volume: VolumeUnderTest): Promise<NodeGetVolumeStatsResponse> =>
    new Promise((resolve, reject) => {
      const request = { volumeId: volume.handle, volumePath: volume.stagingPath, stagingTargetPath: "" };
      agent.nodeClient.nodeGetVolumeStats(request, (error, response) => (error ? reject(error) : resolve(response)));
    });
  const release = async (): Promise<void> => {
    for (const mount of hung.splice(0)) await mount.release();
  };

  beforeAll(async () => {
    agent = await startAgentUnderTest();
    await agent.startAgent();
    well = volumeUnderTest(agent, randomUUID(), "1Gi");
    ill = Array.from({ length: HUNG_COUNT }, () => volumeUnderTest(agent, randomUUID(), "256Mi"));
    for (const volume of [well, ...ill]) {
      await volume.applyLayout();
      await volume.stage();
    }
    for (const { handle } of [well, ...ill])
      await waitFor("a sample of each", () => agent.samples.some(({ volumeHandle }) => volumeHandle === handle));
    hung = ill.map(({ stagingPath }) => coverWithHungMount(stagingPath));
  });
  afterAll(async () => {
    await release();
    await agent.dispose();
  });

  it("get the condition FilesystemHung, each by itself", async () => {
    for (const volume of ill) await waitFor("the condition", async () => (await reasonOf(volume)) === "FilesystemHung");
    await waitFor("the other to be Ready", async () => (await reasonOf(well)) === "Ready");
  });

  it("delay no sample of the one that does", async () => {
    const sinceMs = Date.now();
    const newer = () => agent.samples.filter(({ sampledAtMs }) => sampledAtMs >= sinceMs);
    await waitFor("more samples", () => newer().length >= 3);
    expect(new Set(newer().map(({ volumeHandle }) => volumeHandle))).toEqual(new Set([well.handle]));
  });

  it("delay no operation of the one that does", async () => {
    await well.applyLayout({ target: { size: "2Gi", from: "1Gi", epoch: 1, decidedAt: new Date().toISOString() } });
    await waitFor("the extend", async () => (await well.layout()).status?.lastOperation?.outcome === "Succeeded");
    expect(well.capacityBytes()).toBe(2 * GIB);
  });

  it("leave kubelet with the last figures and an abnormal condition", async () => {
    for (const volume of ill) expect((await stats(volume)).volumeCondition?.abnormal).toBe(true);
    expect((await stats(well)).volumeCondition?.abnormal).toBe(false);
  });

  it("are counted in the metrics", async () => {
    const wanted = [`tidemark_agent_hung_filesystems ${HUNG_COUNT}`, `tidemark_agent_stranded_threads ${HUNG_COUNT}`];
    await waitFor("the counts", async () => {
      const text = await (await fetch(agent.metricsUrl)).text();
      return wanted.every((line) => text.includes(`${line}\n`));
    });
  });

  it("are sampled again as soon as they answer", async () => {
    await release();
    for (const volume of ill) await waitFor("the recovery", async () => (await reasonOf(volume)) === "Ready");
    const sinceMs = Date.now();
    const newer = () => agent.samples.filter(({ sampledAtMs }) => sampledAtMs >= sinceMs);
    await waitFor("samples of all", () =>
      ill.every(({ handle }) => newer().some(({ volumeHandle }) => volumeHandle === handle)),
    );
  });

  it("do not keep the agent from ending", async () => {
    const [first] = ill;
    if (first === undefined) throw new Error("no volume");
    hung = [coverWithHungMount(first.stagingPath)];
    await waitFor("the condition", async () => (await reasonOf(first)) === "FilesystemHung");
    await agent.stopAgent();
    await release();
  });
});
