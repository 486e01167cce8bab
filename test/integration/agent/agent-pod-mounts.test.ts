// A volume in pods' directories, with the mounts that kubelet adds by itself: on real filesystems.
import { execFileSync } from "node:child_process";
import { randomUUID } from "node:crypto";
import { mkdirSync, rmSync, symlinkSync } from "node:fs";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, expect, it } from "@jest/globals";
import { mountsUnder } from "../../../demo/show/run/mount-table.ts";
import { VolumeCapability_AccessMode_Mode as Mode } from "../../../src/contracts/gen/csi/v1/csi.ts";
import { mountCapability } from "../../builders/create-volume-request.ts";
import { describeReal, STACK_PARTS } from "../../harness/real-parts.ts";
import { type AgentUnderTest, startAgentUnderTest, type VolumeUnderTest, volumeUnderTest } from "./agent-under-test.ts";

describeReal("a volume of one writer (ReadWriteOncePod)", STACK_PARTS, () => {
  let agent: AgentUnderTest;
  let volume: VolumeUnderTest;
  const publishAt = (targetPath: string): Promise<void> =>
    agent.node.publish({
      volumeId: volume.handle,
      stagingTargetPath: volume.stagingPath,
      targetPath,
      volumeCapability: mountCapability("", Mode.SINGLE_NODE_SINGLE_WRITER),
      readonly: false,
      ...{ publishContext: {}, secrets: {}, volumeContext: {} },
    });

  beforeAll(async () => {
    agent = await startAgentUnderTest();
    await agent.startAgent();
    volume = volumeUnderTest(agent, randomUUID(), "1Gi");
    await volume.applyLayout();
    await volume.stage();
    mkdirSync(dirname(volume.targetPath), { recursive: true });
    await publishAt(volume.targetPath);
    // As kubelet does for a container's subPath.
    const subPath = join(agent.directory, "kubelet/pods", volume.handle, "volume-subpaths/0");
    for (const path of [join(volume.targetPath, "sub"), subPath]) mkdirSync(path, { recursive: true });
    execFileSync("mount", ["--bind", join(volume.targetPath, "sub"), subPath]);
  });
  afterAll(async () => {
    await agent.dispose();
  });

  it("is published again for its pod, whose container has a part of it mounted", async () => {
    await expect(publishAt(volume.targetPath)).resolves.not.toThrow();
  });

  it("is neither staged nor published through a symbolic link", async () => {
    const elsewhere = join(agent.directory, "elsewhere");
    mkdirSync(elsewhere);
    const other = volumeUnderTest(agent, randomUUID(), "1Gi");
    await other.applyLayout();
    for (const path of [other.stagingPath, other.targetPath]) mkdirSync(dirname(path), { recursive: true });
    const refusal = { details: expect.stringContaining("symbolic link") };
    symlinkSync(elsewhere, other.stagingPath);
    const volumeCapability = mountCapability();
    const request = { volumeId: other.handle, volumeCapability, publishContext: {}, secrets: {}, volumeContext: {} };
    await expect(agent.node.stage({ ...request, stagingTargetPath: other.stagingPath })).rejects.toMatchObject(refusal);
    rmSync(other.stagingPath);
    await other.stage();
    symlinkSync(elsewhere, other.targetPath);
    await expect(other.publish()).rejects.toMatchObject(refusal);
    expect(mountsUnder(elsewhere)).toEqual([]);
  });

  it("is published for no second pod", async () => {
    const second = join(dirname(volume.targetPath), "second");
    await expect(publishAt(second)).rejects.toMatchObject({ details: expect.stringContaining(volume.targetPath) });
  });
});
