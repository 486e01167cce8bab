// Trims by a policy's schedule, of the agent's own process: what a filesystem no longer holds goes back to where its member lies, is told,
// and is not repeated by an agent that is started again.

import { execFileSync } from "node:child_process";
import { randomUUID } from "node:crypto";
import { mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "@jest/globals";
import type { NodeRecord } from "../../../src/agent/volumes/node-records.ts";
import type { FilesystemLayoutSpec } from "../../../src/contracts/kinds/filesystem-layout.ts";
import { LOGICAL_VOLUMES } from "../../../src/contracts/kinds/logical-volume.ts";
import { API_VERSION } from "../../../src/contracts/names.ts";
import { MIB, parseQuantity } from "../../../src/contracts/quantities/quantity.ts";
import { type FakeLvmd, startFakeLvmd } from "../../fakes/fake-lvmd.ts";
import { freshMetrics } from "../../harness/fresh-metrics.ts";
import { describeReal, STACK_PARTS } from "../../harness/real-parts.ts";
import {
  type AgentUnderTest,
  NODE_NAME,
  startAgentUnderTest,
  type VolumeUnderTest,
  volumeUnderTest,
  waitFor,
} from "./agent-under-test.ts";

const BALLAST_BYTES = 300 * MIB;
/** On an ordinary policy it is never less than minutes. */
const trim = { every: "1s" };
const allocatedBytes = (path: string): number => statSync(path).blocks * 512;

describeReal("an agent whose layouts ask for trims", STACK_PARTS, () => {
  let agent: AgentUnderTest;
  let lvmd: FakeLvmd;
  const startAgent = (): Promise<void> => agent.startAgent({}, { "lvmd-socket": lvmd.socketPath });
  const metric = async (name: string): Promise<number> => {
    const text = await freshMetrics(agent.metricsUrl);
    const line = text.split("\n").find((one) => one.startsWith(`${name} `) || one.startsWith(`${name}{`));
    return Number(line?.split(" ").at(-1) ?? 0);
  };
  const lastTrimOf = async (volume: VolumeUnderTest) => (await volume.layout()).status?.lastTrim;
  const recordOf = ({ handle }: VolumeUnderTest): NodeRecord =>
    JSON.parse(readFileSync(join(agent.directory, "state/volumes", `${handle}.json`), "utf8")) as NodeRecord;

  beforeAll(async () => {
    agent = await startAgentUnderTest();
    mkdirSync(join(agent.directory, "lvmd"));
    lvmd = await startFakeLvmd(join(agent.directory, "lvmd"));
    await startAgent();
  });
  afterAll(async () => {
    await agent.killAgent();
    await lvmd.stop();
    await agent.dispose();
  });

  /** Written through to the member, and deleted: the member's file keeps its blocks. */
  const fillAndEmpty = (volume: VolumeUnderTest, memberPath: string): number => {
    const ballast = join(volume.stagingPath, "ballast");
    writeFileSync(ballast, Buffer.alloc(BALLAST_BYTES, "tide"), { flush: true });
    rmSync(ballast);
    execFileSync("sync", ["--file-system", volume.stagingPath]);
    const heldBytes = allocatedBytes(memberPath);
    expect(heldBytes).toBeGreaterThan(BALLAST_BYTES);
    return heldBytes;
  };

  const givesBack = async (
    volume: VolumeUnderTest,
    memberPath: string,
    spec: Partial<FilesystemLayoutSpec>,
  ): Promise<void> => {
    const heldBytes = fillAndEmpty(volume, memberPath);
    const before = await metric("tidemark_filesystem_trimmed_bytes_total");
    await volume.applyLayout({ ...spec, trim });
    await waitFor("the blocks to go back", () => allocatedBytes(memberPath) < heldBytes - BALLAST_BYTES * 0.9);
    await waitFor("it to be told", async () => (await lastTrimOf(volume)) !== undefined);
    const lastTrim = await lastTrimOf(volume);
    expect(parseQuantity(lastTrim?.trimmed ?? "0")).toBeGreaterThan(BALLAST_BYTES * 0.9);
    expect(lastTrim?.message).toBeUndefined();
    expect((await metric("tidemark_filesystem_trimmed_bytes_total")) - before).toBeGreaterThan(BALLAST_BYTES * 0.9);
    expect(await metric('tidemark_filesystem_trims_total{outcome="Trimmed"}')).toBeGreaterThan(0);
    await volume.applyLayout(spec);
  };

  it.each(["btrfs", "xfs"] as const)("gives a loop member's blocks back to the host, with %s", async (fsType) => {
    const volume = volumeUnderTest(agent, randomUUID(), "1Gi", fsType);
    await volume.applyLayout();
    await volume.stage();
    await givesBack(volume, volume.memberPath, {});
    await volume.unstage();
  });

  it("gives a logical volume's blocks back to its thin pool", async () => {
    const volume = volumeUnderTest(agent, randomUUID(), "1Gi");
    const { metadata } = await agent.client.create("test/logical-volume", LOGICAL_VOLUMES, {
      apiVersion: API_VERSION,
      kind: "LogicalVolume",
      metadata: { name: volume.handle },
      spec: { nodeName: NODE_NAME, deviceClass: "thin", size: "1Gi" },
    });
    const volumeID = metadata.uid ?? "";
    await waitFor("the volume", () => lvmd.calls.includes(`CreateLV ${volumeID}`));
    const source = { logicalVolume: { name: volume.handle, volumeID, deviceClass: "thin" } };
    const spec: Partial<FilesystemLayoutSpec> = {
      backend: "lvm",
      members: [{ name: "member-0", size: "1Gi", source }],
    };
    await volume.applyLayout(spec);
    await volume.stage();
    await givesBack(volume, join(agent.directory, "lvmd/volumes", volumeID), spec);
    await volume.unstage();
  });

  it("knows the last trim from the node's record when it is started again", async () => {
    const volume = volumeUnderTest(agent, randomUUID(), "1Gi");
    await volume.applyLayout({ trim });
    await volume.stage();
    await waitFor("a trim", async () => (await lastTrimOf(volume)) !== undefined);
    await agent.killAgent();
    const { lastTrim } = recordOf(volume);
    expect(lastTrim).toBeDefined();
    await volume.applyLayout({ trim: { every: "24h" } });
    const { generation } = (await volume.layout()).metadata;
    await startAgent();
    await waitFor("its report", async () => (await volume.layout()).status?.observedGeneration === generation);
    expect(await lastTrimOf(volume)).toEqual(lastTrim);
    await volume.unstage();
  });
});
