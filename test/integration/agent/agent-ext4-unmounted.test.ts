// An ext4 of a thin class in the agent's own process: made smaller when kubelet unstages it, while the target's time lasts, and ended after a
// crash before it is mounted again. Real filesystems, on a fake lvmd's loop devices.
import { randomUUID } from "node:crypto";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { status } from "@grpc/grpc-js";
import { afterAll, beforeAll, beforeEach, expect, it } from "@jest/globals";
import { readExt4Bytes } from "../../../src/agent/storage/filesystem/superblocks.ts";
import type { FilesystemLayoutSpec } from "../../../src/contracts/kinds/filesystem-layout.ts";
import { GIB } from "../../../src/contracts/quantities/quantity.ts";
import { type FakeLvmd, startFakeLvmd } from "../../fakes/fake-lvmd.ts";
import { describeReal, STACK_PARTS } from "../../harness/real-parts.ts";
import {
  type AgentUnderTest,
  startAgentUnderTest,
  type VolumeUnderTest,
  volumeUnderTest,
  waitFor,
} from "./agent-under-test.ts";

const HOUR_MS = 3_600_000;

describeReal("an agent with an ext4 in a thin pool", STACK_PARTS, () => {
  let agent: AgentUnderTest;
  let lvmd: FakeLvmd;
  let volume: VolumeUnderTest;
  let volumeID: string;

  beforeAll(async () => {
    agent = await startAgentUnderTest();
    const directory = join(agent.directory, "lvmd");
    mkdirSync(directory);
    lvmd = await startFakeLvmd(directory);
    await startAgent();
  });
  afterAll(async () => {
    await agent.killAgent();
    await lvmd.stop();
    await agent.dispose();
  });
  beforeEach(async () => {
    lvmd.refusals.clear();
    const volumeUID = randomUUID();
    volumeID = randomUUID();
    volume = volumeUnderTest(agent, volumeUID, "2Gi");
    await lvmd.lvm.make("thin", volumeID, 2 * GIB, [`tidemark.dev/volume-uid=${volumeUID}`]);
    await applyLayout();
    await volume.stage();
    writeFileSync(join(volume.stagingPath, "kept"), "water");
  });

  const startAgent = (environment = {}): Promise<void> =>
    agent.startAgent(environment, { "lvmd-socket": lvmd.socketPath });
  const applyLayout = (change: Partial<FilesystemLayoutSpec> = {}): Promise<void> =>
    volume.applyLayout({
      backend: "lvm",
      fsType: "ext4",
      members: [
        {
          name: "member-0",
          size: "2Gi",
          source: { logicalVolume: { name: volume.handle, volumeID, deviceClass: "thin" } },
        },
      ],
      ...change,
    });
  const wantSmaller = (lifeMs: number): Promise<void> =>
    applyLayout({
      target: {
        size: "1Gi",
        from: "2Gi",
        epoch: 1,
        decidedAt: new Date().toISOString(),
        notAfter: new Date(Date.now() + lifeMs).toISOString(),
      },
    });
  const bytes = (): { volume: number; filesystem: number | undefined } => {
    const { sizeBytes, path } = lvmd.lvm.volumeOf("thin", volumeID);
    return { volume: sizeBytes, filesystem: readExt4Bytes(path) };
  };
  const kept = (): string => readFileSync(join(volume.stagingPath, "kept"), "utf8");
  const lastOperation = async () => (await volume.layout()).status?.lastOperation;
  const snapshots = (): string[] =>
    lvmd.lvm
      .volumes()
      .map(({ name }) => name)
      .filter((name) => name.startsWith("before-shrink"));

  it("says that it can, keeps its size while it is mounted, and makes it smaller when it is unstaged", async () => {
    await waitFor("it to be said", async () => (await volume.layout()).status?.shrinksUnmounted === true);
    await wantSmaller(HOUR_MS);
    await waitFor("the target to be seen", async () => {
      const { metadata, status: told } = await volume.layout();
      return told?.observedGeneration === metadata.generation;
    });
    expect(bytes()).toEqual({ volume: 2 * GIB, filesystem: 2 * GIB });
    expect(await lastOperation()).toBeUndefined();
    await volume.unstage();
    expect(bytes()).toEqual({ volume: GIB, filesystem: GIB });
    await waitFor("its end", async () => (await lastOperation())?.outcome === "Succeeded");
    expect(await lastOperation()).toMatchObject({ kind: "Shrink", from: "2Gi", to: "1Gi", reached: "1Gi" });
    expect(snapshots()).toEqual([]);
    await volume.stage();
    expect(kept()).toBe("water");
    expect(volume.capacityBytes()).toBeLessThan(GIB);
    await volume.unstage();
    expect(bytes()).toEqual({ volume: GIB, filesystem: GIB });
  });

  it("keeps its size once the target's time is over", async () => {
    await wantSmaller(-1);
    await waitFor("the target to be seen", async () => {
      const { metadata, status: told } = await volume.layout();
      return told?.observedGeneration === metadata.generation;
    });
    await volume.unstage();
    expect(bytes()).toEqual({ volume: 2 * GIB, filesystem: 2 * GIB });
    expect(await lastOperation()).toBeUndefined();
  });

  it("says why it does not, where lvmd has no room for the snapshot", async () => {
    lvmd.refusals.set("CreateLVSnapshot", { code: status.RESOURCE_EXHAUSTED, details: "no enough space left on VG" });
    await wantSmaller(HOUR_MS);
    await volume.unstage();
    await waitFor("its end", async () => (await lastOperation())?.outcome === "Cancelled");
    const message = expect.stringContaining("no enough space left on VG");
    expect(await lastOperation()).toMatchObject({ reason: "ShrinkNotCrashSafe", reached: "2Gi", message });
    lvmd.refusals.clear();
    await volume.stage();
    expect(kept()).toBe("water");
    expect(lvmd.lvm.volumeOf("thin", volumeID).tags).not.toContain("tidemark.dev/unmounted-shrink");
    await volume.unstage();
  });

  it.each([
    ["takes it back", "unmounted-shrink/resize/after", 2 * GIB, "Cancelled"],
    ["ends it", "unmounted-shrink/record-proven/after", GIB, "Succeeded"],
  ])("%s after a crash at %s, though kubelet does not come back", async (_what, fault, sizeBytes, outcome) => {
    await wantSmaller(HOUR_MS);
    await agent.killAgent();
    await startAgent({ TIDEMARK_FAULT: fault });
    await expect(volume.unstage()).rejects.toThrow();
    await agent.agentEnded();
    expect(snapshots()).toHaveLength(1);
    await startAgent();
    await waitFor("its end", async () => (await lastOperation())?.outcome === outcome);
    expect(bytes()).toEqual({ volume: sizeBytes, filesystem: sizeBytes });
    expect(snapshots()).toEqual([]);
    await volume.stage();
    expect(kept()).toBe("water");
    await volume.unstage();
  });

  it("is not let go of, nor mounted, while lvmd is away in the middle, and mounted once it is back", async () => {
    lvmd.refusals.set("ReduceLV", { code: status.UNAVAILABLE, details: "gone" });
    lvmd.refusals.set("CancelReduce", { code: status.UNAVAILABLE, details: "gone" });
    await wantSmaller(HOUR_MS);
    await expect(volume.unstage()).rejects.toThrow("gone");
    await expect(volume.stage()).rejects.toThrow("gone");
    lvmd.refusals.clear();
    await volume.stage();
    expect(kept()).toBe("water");
    expect(bytes().volume).toBe(GIB);
    await volume.unstage();
  });

  it("is stalled where nobody can tell how far a shrink has come", async () => {
    await volume.unstage();
    lvmd.lvm.retag(lvmd.lvm.volumeOf("thin", volumeID), [
      ...lvmd.lvm.volumeOf("thin", volumeID).tags,
      "tidemark.dev/unmounted-shrink",
    ]);
    await expect(volume.stage()).rejects.toThrow("ShrinkOutcomeUnknown");
    await waitFor("the condition", async () =>
      ((await volume.layout()).status?.conditions ?? []).some(
        ({ type, status: holds, reason }) =>
          type === "Stalled" && holds === "True" && reason === "ShrinkOutcomeUnknown",
      ),
    );
  });
});
