// Claims of another driver on a node: real filesystems on loop devices, mounted where kubelet would have them.
import { execFileSync } from "node:child_process";
import { randomUUID } from "node:crypto";
import { mkdirSync, statfsSync, truncateSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, expect, it } from "@jest/globals";
import type { Sample } from "../../../src/contracts/gen/tidemark/samples/v1/samples.ts";
import { volumeHandleOf } from "../../../src/contracts/identity.ts";
import { FILESYSTEM_LAYOUTS } from "../../../src/contracts/kinds/filesystem-layout.ts";
import { API_VERSION, FIELD_MANAGERS } from "../../../src/contracts/names.ts";
import { MIB } from "../../../src/contracts/quantities/quantity.ts";
import { describeReal, STACK_PARTS } from "../../harness/real-parts.ts";
import { type AgentUnderTest, NODE_NAME, startAgentUnderTest, waitFor } from "./agent-under-test.ts";
import { coverWithHungMount } from "./hung-mount.ts";

const DRIVER = "block.example.com";
const SIZE_MIB = 64;

describeReal("claims of another driver", STACK_PARTS, () => {
  let agent: AgentUnderTest;

  beforeAll(async () => {
    agent = await startAgentUnderTest();
    await agent.startAgent();
  });
  afterAll(() => agent.dispose());

  /** Where kubelet mounts it for a pod, with what kubelet writes beside it. */
  function placeFor(pod: string, name: string, record: object): string {
    const mountPath = join(agent.directory, "kubelet/pods", pod, "volumes/kubernetes.io~csi", name, "mount");
    mkdirSync(mountPath, { recursive: true });
    writeFileSync(join(dirname(mountPath), "vol_data.json"), JSON.stringify(record));
    return mountPath;
  }
  function mountFor(pod: string, name: string, record: object): string {
    const mountPath = placeFor(pod, name, record);
    const image = join(agent.directory, `${pod}-${name}.img`);
    writeFileSync(image, "");
    truncateSync(image, SIZE_MIB * MIB);
    execFileSync("/usr/sbin/mkfs.ext4", ["-q", image]);
    execFileSync("/usr/bin/mount", ["-o", "loop", image, mountPath]);
    return mountPath;
  }
  const recordOf = (name: string) => ({
    driverName: DRIVER,
    volumeHandle: `vol-${name}`,
    volumeLifecycleMode: "Persistent",
  });

  async function adopt(name: string, nodeName = NODE_NAME): Promise<string> {
    const uid = randomUUID();
    const handle = volumeHandleOf(uid);
    const member = {
      name,
      uid,
      volumeName: name,
      driver: DRIVER,
      volumeHandle: `vol-${name}`,
      capacity: `${SIZE_MIB}Mi`,
    };
    await agent.client.apply(
      "test/layout",
      FILESYSTEM_LAYOUTS,
      {
        apiVersion: API_VERSION,
        kind: "FilesystemLayout",
        metadata: { name: handle },
        spec: {
          claimRef: { namespace: "shop", name, uid },
          backend: "claim",
          nodeName,
          members: [{ name: "claim", source: { claim: member } }],
        },
      },
      { fieldManager: FIELD_MANAGERS.operator },
    );
    return handle;
  }
  const samplesOf = (handle: string): Sample[] => agent.samples.filter(({ volumeHandle }) => volumeHandle === handle);
  const newest = (handle: string): Sample | undefined => samplesOf(handle).at(-1);
  const untilSampled = (handle: string) => waitFor(`a sample of ${handle}`, () => samplesOf(handle).length > 0);
  const scrape = async (): Promise<string> => (await fetch(agent.metricsUrl)).text();
  const measuredClaims = async (): Promise<number> =>
    Number(/^tidemark_agent_claims (\d+)$/m.exec(await scrape())?.[1]);
  const unmount = (path: string) => execFileSync("/usr/bin/umount", [path]);

  it("are measured by statfs where kubelet has mounted them, and found in the metrics under their own names", async () => {
    const mountPath = mountFor("pod-1", "pv-plain", recordOf("pv-plain"));
    const handle = await adopt("pv-plain");
    await untilSampled(handle);
    const { blocks, bsize, bavail, files } = statfsSync(mountPath);
    expect(newest(handle)).toMatchObject({
      capacityBytes: blocks * bsize,
      availableBytes: bavail * bsize,
      inodesTotal: files,
    });
    const labels = '{namespace="shop",persistentvolumeclaim="pv-plain"}';
    await waitFor("the series", async () =>
      (await scrape()).includes(`tidemark_filesystem_capacity_bytes${labels} ${blocks * bsize}\n`),
    );
    writeFileSync(join(mountPath, "full"), Buffer.alloc(20 * MIB, 1));
    await waitFor("what was written", () => (newest(handle)?.availableBytes ?? 0) < bavail * bsize - 19 * MIB);
  });

  it("are left to the agent of the node that they are on", async () => {
    mountFor("pod-2", "pv-elsewhere", recordOf("pv-elsewhere"));
    const handle = await adopt("pv-elsewhere", "node-b");
    const here = await adopt("pv-here");
    mountFor("pod-2", "pv-here", recordOf("pv-here"));
    await untilSampled(here);
    expect(samplesOf(handle)).toEqual([]);
  });

  it("are not taken from a pod that calls an inline volume like a PersistentVolume", async () => {
    mountFor("pod-3", "pv-forged", { ...recordOf("pv-forged"), volumeLifecycleMode: "Ephemeral" });
    mountFor("pod-3b", "pv-forged", { ...recordOf("pv-forged"), volumeHandle: "vol-of-mine" });
    const forged = await adopt("pv-forged");
    const honest = await adopt("pv-honest");
    mountFor("pod-3", "pv-honest", recordOf("pv-honest"));
    await untilSampled(honest);
    expect(samplesOf(forged)).toEqual([]);
  });

  it("are no volumes that the agent stages, resizes or reports on", async () => {
    const handle = await adopt("pv-reported");
    mountFor("pod-4", "pv-reported", recordOf("pv-reported"));
    await untilSampled(handle);
    const layout = await agent.client.get(FILESYSTEM_LAYOUTS, { name: handle });
    expect(layout?.status).toBeUndefined();
    const request = { volumeId: handle, volumePath: "/", stagingTargetPath: "" };
    await expect(
      new Promise((resolve, reject) => {
        agent.nodeClient.nodeGetVolumeStats(request, (error, response) => (error ? reject(error) : resolve(response)));
      }),
    ).rejects.toThrow("NOT_FOUND");
  });

  it("are not sampled after they are unmounted: the disk underneath is never taken for them", async () => {
    const mountPath = mountFor("pod-5", "pv-gone", recordOf("pv-gone"));
    const handle = await adopt("pv-gone");
    await untilSampled(handle);
    const { capacityBytes } = newest(handle) ?? {};
    const measured = await measuredClaims();
    unmount(mountPath);
    await waitFor("it to be forgotten", async () => (await measuredClaims()) === measured - 1);
    await waitFor("its series to end", async () => !(await scrape()).includes('persistentvolumeclaim="pv-gone"'));
    expect(new Set(samplesOf(handle).map((sample) => sample.capacityBytes))).toEqual(new Set([capacityBytes]));
  });

  it("are measured at another pod's mount when the one ends", async () => {
    const first = mountFor("pod-6", "pv-moving", recordOf("pv-moving"));
    const handle = await adopt("pv-moving");
    await untilSampled(handle);
    const second = first.replace("pod-6", "pod-7");
    mkdirSync(second, { recursive: true });
    writeFileSync(join(dirname(second), "vol_data.json"), JSON.stringify(recordOf("pv-moving")));
    execFileSync("/usr/bin/mount", ["--bind", first, second]);
    unmount(first);
    const sinceMs = Date.now();
    writeFileSync(join(second, "more"), Buffer.alloc(5 * MIB, 1));
    const left = statfsSync(second).bavail;
    await waitFor("a sample from the other mount", () => {
      const last = newest(handle);
      return (
        last !== undefined && last.sampledAtMs > sinceMs && last.availableBytes === left * statfsSync(second).bsize
      );
    });
  });

  it("that hang delay no other", async () => {
    const well = await adopt("pv-well");
    const ill = await adopt("pv-ill");
    mountFor("pod-8", "pv-well", recordOf("pv-well"));
    const covered = mountFor("pod-8", "pv-ill", recordOf("pv-ill"));
    await untilSampled(well);
    await untilSampled(ill);
    const hung = coverWithHungMount(covered);
    try {
      await waitFor("it to be counted", async () => (await scrape()).includes("tidemark_agent_hung_filesystems 1\n"));
      const sinceMs = Date.now();
      await waitFor(
        "more samples of the other",
        () => samplesOf(well).filter(({ sampledAtMs }) => sampledAtMs > sinceMs).length >= 3,
      );
      expect(await scrape()).not.toContain('persistentvolumeclaim="pv-ill"');
    } finally {
      await hung.release();
    }
    const releasedMs = Date.now();
    await waitFor("it to be sampled again", () => (newest(ill)?.sampledAtMs ?? 0) > releasedMs);
  });

  it("that hang with their server, however many, leave the others a thread", async () => {
    const well = await adopt("pv-alive");
    mountFor("pod-9", "pv-alive", recordOf("pv-alive"));
    await untilSampled(well);
    const names = Array.from({ length: 40 }, (_, index) => `pv-dead-${index}`);
    const hung = names.map((name) => coverWithHungMount(placeFor("pod-9", name, recordOf(name))));
    try {
      for (const name of names) await adopt(name);
      await waitFor("all to be counted", async () =>
        (await scrape()).includes(`tidemark_agent_hung_filesystems ${names.length}\n`),
      );
      expect(Number(/^tidemark_agent_stranded_threads (\d+)$/m.exec(await scrape())?.[1])).toBeLessThanOrEqual(2);
      const sinceMs = Date.now();
      await waitFor("a sample of the other", () => (newest(well)?.sampledAtMs ?? 0) > sinceMs);
    } finally {
      for (const mount of hung) await mount.release();
    }
    await waitFor("none to be counted", async () => (await scrape()).includes("tidemark_agent_hung_filesystems 0\n"));
  });

  it("are asked once a second at most, however fast they fill", async () => {
    const mountPath = mountFor("pod-10", "pv-filling", recordOf("pv-filling"));
    const handle = await adopt("pv-filling");
    await untilSampled(handle);
    let written = 0;
    await waitFor("six samples", () => {
      written += 1;
      writeFileSync(join(mountPath, `f${written % 40}`), Buffer.alloc(MIB, written));
      return samplesOf(handle).length >= 6;
    });
    // Each may be late, and the next one on time: all together they take their five seconds, less what the first was late.
    const times = samplesOf(handle).map(({ sampledAtMs }) => sampledAtMs);
    expect((times[5] ?? 0) - (times[0] ?? 0)).toBeGreaterThan(3000);
  });
});
