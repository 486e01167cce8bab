// The backend `lvm` on a real Kubernetes, from claim to deletion: real kubelets, the real scheduler, Tidemark from its manifests with
// lvmd beside each agent, real LVM commands. Thin pools, snapshots and crashes of LVM's own are tested where there is device-mapper.
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, expect, it } from "@jest/globals";
import { volumeHandleOf } from "../../src/contracts/identity.ts";
import { FILESYSTEMS } from "../../src/contracts/kinds/filesystem.ts";
import { FILESYSTEM_LAYOUTS } from "../../src/contracts/kinds/filesystem-layout.ts";
import { LOGICAL_VOLUMES } from "../../src/contracts/kinds/logical-volume.ts";
import { NODE_STORAGES } from "../../src/contracts/kinds/node-storage.ts";
import { CSI_STORAGE_CAPACITIES, PERSISTENT_VOLUME_CLAIMS } from "../../src/contracts/kubernetes/resources.ts";
import { GIB, MIB, parseQuantity } from "../../src/contracts/quantities/quantity.ts";
import { startComponent, stopComponent } from "../cluster/components.ts";
import { nodeReady } from "../cluster/readiness.ts";
import { waitFor } from "../harness/wait-for.ts";
import { applyObject } from "./apply-object.ts";
import { BREATHING, breathingPolicy } from "./breathing-policy.ts";
import { claimingPod, claimOf, devicePod, localClass } from "./claiming-pod.ts";
import { type ClusterUnderTest, clusterOf, startClusterUnderTest } from "./cluster-under-test.ts";
import { describeOn } from "./describe-on.ts";
import { grantIsOnDisk } from "./grant-on-disk.ts";
import { everyPodReady, install, LVM_OVERLAY, loadImages, logsOf, SYSTEM_NAMESPACE } from "./installed-tidemark.ts";
import {
  DEVICE_CLASS,
  GROUP_BYTES,
  giveVolumeGroups,
  groupOnNode,
  LARGE_NODE,
  type VolumeOnNode,
  volumesOnNodes,
} from "./lvm-in-cluster.ts";
import { inContainer, onNode } from "./node-shell.ts";
import { PODS, type Pod } from "./pod.ts";
import { type Writer, writerIn } from "./stateful-writer.ts";
import { whatIsThere } from "./what-is-there.ts";

const BUILD_LIMIT_MS = 3_600_000;
const LIMIT_MS = 420_000;
const CLASS = "e2e-lvm";
const LIMITS = { min: "2Gi", max: "6Gi", minAvailable: "256Mi" };
const FILE_MIB = 64;
const GRAIN_BYTES = 4 * MIB;
/** In pieces: an agent that shares two cores with a cluster has seconds for what is left at minAvailable. */
const FILL = "for n in $(seq 36); do dd if=/dev/urandom bs=1M count=50 conv=fsync >> /data/fill; sleep 0.5; done";

const files = (from: number, count: number): string[] =>
  Array.from({ length: count }, (_, index) => `f${from + index}`);

let tested: ClusterUnderTest;
const otherwise = (): Promise<string> => whatIsThere(tested);

async function until<T>(what: string, look: () => Promise<T | undefined>): Promise<T> {
  return waitFor(what, look, { limitMs: LIMIT_MS / 2, intervalMs: 300, otherwise });
}

async function claimWithPod(name: string, request: string): Promise<Writer> {
  await applyObject(tested, claimOf(name, CLASS, request));
  await applyObject(tested, claimingPod(name, tested.image, name));
  return writerIn(tested, name);
}

async function podOf(name: string): Promise<Pod> {
  const pod = await tested.client.get(PODS, { namespace: tested.namespace, name });
  if (pod === undefined) throw new Error(`there is no pod ${name}`);
  return pod;
}

async function handleOf(claim: string): Promise<string> {
  const found = await tested.client.get(PERSISTENT_VOLUME_CLAIMS, { namespace: tested.namespace, name: claim });
  return volumeHandleOf(found?.metadata.uid ?? "");
}

/** In LVM itself. */
async function volumeOf(claim: string): Promise<VolumeOnNode> {
  const own = await tested.client.get(LOGICAL_VOLUMES, { name: await handleOf(claim) });
  const volume = (await volumesOnNodes(clusterOf(tested))).find(({ name }) => name === own?.metadata.uid);
  if (volume === undefined) throw new Error(`there is no logical volume of claim ${claim}`);
  return volume;
}

async function capacityIs(writer: Writer, what: string, holds: (mib: number) => boolean): Promise<number> {
  return until(`the filesystem to ${what}`, async () => {
    const mib = await writer.capacityMiB();
    return holds(mib) ? mib : undefined;
  });
}

/** The volume of LVM has the filesystem's size: what a shrink has taken off is the group's again. */
async function volumeFits(claim: string, writer: Writer): Promise<void> {
  await until(`the volume of ${claim} to be as large as its filesystem`, async () => {
    const [{ sizeBytes }, mib] = [await volumeOf(claim), await writer.capacityMiB()];
    return Math.abs(sizeBytes - mib * MIB) < GRAIN_BYTES ? true : undefined;
  });
}

async function deleteAll(...claims: readonly string[]): Promise<void> {
  await tested.kubectl("delete", "pod", "--wait", "--ignore-not-found", ...claims);
  await tested.kubectl("delete", "pvc", "--timeout=180s", ...claims);
}

/** In the API or on a node. */
async function nothingIsLeft(): Promise<void> {
  let left: unknown[] = [];
  await waitFor(
    "nothing to be left",
    async () => {
      const [layouts, volumes] = [
        await tested.client.list(FILESYSTEM_LAYOUTS),
        await tested.client.list(LOGICAL_VOLUMES),
      ];
      const onDisks = await volumesOnNodes(clusterOf(tested));
      left = [...layouts.items, ...volumes.items, ...onDisks];
      return left.length === 0 && (await tested.kubectl("get", "pv", "-o", "name")) === "" ? true : undefined;
    },
    { limitMs: LIMIT_MS / 2, intervalMs: 500, otherwise: async () => `${JSON.stringify(left)}\n${await otherwise()}` },
  );
}

async function scaleEngine(replicas: number): Promise<void> {
  const engine = "deployment/policy-engine";
  await tested.kubectl("-n", SYSTEM_NAMESPACE, "scale", engine, `--replicas=${replicas}`);
  const selector = "app.kubernetes.io/component=policy-engine";
  await until(`${replicas} engines`, async () => {
    const { items } = await tested.client.list(PODS, { namespace: SYSTEM_NAMESPACE, labelSelector: selector });
    return items.length === replicas ? true : undefined;
  });
}

/** By its pid on the node: its container ends with it, and kubelet starts it again. */
async function killLvmd(node: string): Promise<void> {
  const script =
    'for p in /proc/[0-9]*; do tr "\\0" " " <$p/cmdline | grep -q "tidemark.mjs[ ]lvmd" && echo ${p#/proc/}; done';
  const pids = (await onNode(clusterOf(tested), node, "sh", "-c", `${script}; true`)).trim().split("\n");
  expect(pids).toHaveLength(1);
  await onNode(clusterOf(tested), node, "kill", "-9", ...pids);
}

describeOn("ours", "volumes of LVM in a cluster", ["bundle", "lvm"], () => {
  beforeAll(async () => {
    tested = await startClusterUnderTest();
    await loadImages(tested);
    await giveVolumeGroups(clusterOf(tested));
    await install(tested, LVM_OVERLAY);
    await applyObject(tested, localClass(CLASS, { backend: "lvm" }));
  }, BUILD_LIMIT_MS);

  afterAll(() => tested?.close(), LIMIT_MS);

  it(
    "tells of each node's class what it has, and the scheduler what it can promise there",
    async () => {
      for (const node of Object.keys(GROUP_BYTES)) {
        const { sizeBytes, freeBytes } = await groupOnNode(clusterOf(tested), node);
        const told = await until(`the NodeStorage of ${node}`, async () => {
          const { status } = (await tested.client.get(NODE_STORAGES, { name: node })) ?? {};
          return status?.deviceClasses?.find(({ backend }) => backend === "lvm");
        });
        expect(told).toMatchObject({ name: DEVICE_CLASS, default: true });
        expect([parseQuantity(told.size ?? ""), parseQuantity(told.free)]).toEqual([sizeBytes, freeBytes]);
        await capacityToldIs(node, freeBytes);
      }
    },
    LIMIT_MS,
  );

  it(
    "gives two pods filesystems that grow as they fill and shrink as they empty, with every byte preserved, and nothing is left of them",
    async () => {
      await applyObject(tested, breathingPolicy(LIMITS));
      const names = ["one", "two"];
      const writers = await Promise.all(names.map((name) => claimWithPod(name, "2Gi")));
      for (const [index, writer] of writers.entries()) {
        const name = names[index] ?? "";
        await writer.running();
        expect(await writer.capacityMiB()).toBe(2048);
        expect(await volumeOf(name)).toMatchObject({
          node: (await podOf(name)).spec.nodeName,
          sizeBytes: 2 * GIB,
          tags: expect.arrayContaining([`tidemark.dev/claim=${tested.namespace}/${name}`]),
        });
      }
      await Promise.all(writers.map((writer) => writer.write(files(0, 27), FILE_MIB)));
      const grown = await Promise.all(writers.map((writer) => capacityIs(writer, "grow", (mib) => mib > 2300)));
      await Promise.all(writers.map((writer) => writer.write(files(27, 4), FILE_MIB)));
      for (const writer of writers) expect(await writer.damaged()).toBe("");
      await Promise.all(writers.map((writer) => writer.remove(files(0, 25))));
      await Promise.all(
        writers.map((writer, index) => capacityIs(writer, "shrink", (mib) => mib <= (grown[index] ?? 0) - 256)),
      );
      for (const [index, writer] of writers.entries()) {
        await volumeFits(names[index] ?? "", writer);
        expect(await writer.damaged()).toBe("");
      }
      await tested.kubectl("delete", "pod", "--wait", ...names);
      for (const name of names) await applyObject(tested, claimingPod(name, tested.image, name));
      for (const writer of writers) {
        await writer.running();
        expect(await writer.damaged()).toBe("");
      }
      await deleteAll(...names);
      await nothingIsLeft();
      for (const node of Object.keys(GROUP_BYTES)) {
        const { sizeBytes, freeBytes } = await groupOnNode(clusterOf(tested), node);
        expect(freeBytes).toBe(sizeBytes);
        await capacityToldIs(node, freeBytes);
      }
    },
    LIMIT_MS,
  );

  it(
    "gives a disk that fills without API server and engine the room that it was granted",
    async () => {
      const cluster = clusterOf(tested);
      const writer = await claimWithPod("needy", "2Gi");
      await writer.running();
      const pod = await podOf("needy");
      await grantIsOnDisk(cluster, pod.spec.nodeName ?? "", await handleOf("needy"), otherwise);
      const capacityMiB = async (): Promise<number> =>
        Number(await inContainer(cluster, pod, "df -m /data | awk 'NR == 2 { print $2 }'"));
      expect(await capacityMiB()).toBe(2048);
      await scaleEngine(0);
      await stopComponent(cluster, "kube-apiserver");
      try {
        await inContainer(cluster, pod, FILL);
        await inContainer(cluster, pod, "sha256sum /data/fill > /tmp/fill");
        expect(await capacityMiB()).toBeGreaterThan(2200);
        await inContainer(cluster, pod, "sha256sum -c /tmp/fill");
      } finally {
        await startComponent(cluster, "kube-apiserver");
      }
      await Promise.all(cluster.nodes.map((node) => nodeReady(cluster, node)));
      await scaleEngine(2);
      await everyPodReady(tested);
      await inContainer(cluster, pod, "sha256sum -c /tmp/fill && rm /data/fill");
      await volumeFits("needy", writer);
      await deleteAll("needy");
      await nothingIsLeft();
    },
    LIMIT_MS,
  );

  it(
    "puts a claim where there is room for it, and says of one that fits nowhere why it waits",
    async () => {
      await applyObject(tested, breathingPolicy({ ...LIMITS, max: "40Gi" }));
      const writer = await claimWithPod("large", "12Gi");
      await writer.running();
      expect((await podOf("large")).spec.nodeName).toBe(LARGE_NODE);
      await claimWithPod("huge", "30Gi");
      const select = "involvedObject.name=huge,reason=FailedScheduling";
      const told = await until("the scheduler's word on it", async () => {
        const said = await tested.kubectl(
          "get",
          "events",
          "--field-selector",
          select,
          "-o",
          "jsonpath={.items[*].message}",
        );
        return said.includes("storage") ? said : undefined;
      });
      expect(told).toContain("did not have enough free storage");
      await sleep(2000);
      expect((await podOf("huge")).status?.phase).toBe("Pending");
      expect(await volumesOnNodes(clusterOf(tested))).toHaveLength(1);
      await deleteAll("large", "huge");
      await nothingIsLeft();
    },
    LIMIT_MS,
  );

  it(
    "goes on while lvmd is killed, and grows a volume once it is back",
    async () => {
      await applyObject(tested, breathingPolicy(LIMITS));
      const writer = await claimWithPod("lasting", "2Gi");
      await writer.running();
      await writer.write(files(0, 4), FILE_MIB);
      const node = (await podOf("lasting")).spec.nodeName ?? "";
      await killLvmd(node);
      await writer.write(files(4, 23), FILE_MIB);
      await capacityIs(writer, "grow", (mib) => mib > 2300);
      await everyPodReady(tested);
      expect(await writer.damaged()).toBe("");
      await deleteAll("lasting");
      await tested.kubectl("delete", "volumepolicy", BREATHING);
      await nothingIsLeft();
    },
    LIMIT_MS,
  );

  it(
    "gives a pod a raw block device that grows under it, and keeps what was written to it for the next pod",
    async () => {
      const cluster = clusterOf(tested);
      await applyObject(tested, claimOf("raw", CLASS, "1Gi", "Block"));
      const runs = async (): Promise<Pod> => {
        await applyObject(tested, devicePod("raw", tested.image, "raw"));
        await tested.kubectl("wait", "pod", "raw", "--for=condition=Ready", "--timeout=120s");
        return podOf("raw");
      };
      const pod = await runs();
      const deviceBytes = async (): Promise<number> =>
        Number(await inContainer(cluster, pod, "blockdev --getsize64 /dev/data"));
      expect(await deviceBytes()).toBe(GIB);
      // Where superblocks are: nobody has formatted it.
      expect((await inContainer(cluster, pod, "head -c 131072 /dev/data | tr -d '\\0' | wc -c")).trim()).toBe("0");
      const write = "dd if=/dev/urandom bs=1M count=16 of=/dev/data conv=fsync,notrunc && ";
      const sum = "head -c 16777216 /dev/data | sha256sum";
      const written = await inContainer(cluster, pod, `${write}${sum}`);
      const raised = JSON.stringify({ spec: { resources: { requests: { storage: "2Gi" } } } });
      await tested.kubectl("patch", "pvc", "raw", "--patch", raised);
      await until("the device to grow", async () => ((await deviceBytes()) === 2 * GIB ? true : undefined));
      await until("the claim to say so", async () => {
        const claim = { namespace: tested.namespace, name: "raw" };
        const found = await tested.client.get(PERSISTENT_VOLUME_CLAIMS, claim);
        return found?.status?.capacity?.["storage"] === "2Gi" ? true : undefined;
      });
      await until("the Filesystem to say why no policy extends it", async () => {
        const { scaling } =
          (await tested.client.get(FILESYSTEMS, { namespace: tested.namespace, name: "raw" }))?.status ?? {};
        return scaling?.reason === "RawBlockVolume" ? true : undefined;
      });
      expect(await volumeOf("raw")).toMatchObject({
        sizeBytes: 2 * GIB,
        tags: expect.arrayContaining(["tidemark.dev/volume-mode=Block"]),
      });
      await tested.kubectl("delete", "pod", "--wait", "raw");
      expect(await inContainer(cluster, await runs(), sum)).toBe(written);
      await deleteAll("raw");
      await nothingIsLeft();
    },
    LIMIT_MS,
  );

  it("does nothing that its roles do not allow", async () => {
    const refused = /forbidden|cannot (get|list|watch|create|update|patch|delete)/i;
    expect((await logsOf(tested)).split("\n").filter((line) => refused.test(line))).toEqual([]);
  });
});

/** To the scheduler, for our class. */
async function capacityToldIs(node: string, freeBytes: number): Promise<void> {
  await until(`the CSIStorageCapacity of ${node} to be ${freeBytes}`, async () => {
    const { items } = await tested.client.list(CSI_STORAGE_CAPACITIES, { namespace: SYSTEM_NAMESPACE });
    const own = items.find(
      ({ storageClassName, nodeTopology }) =>
        storageClassName === CLASS && Object.values(nodeTopology?.matchLabels ?? {}).includes(node),
    );
    return parseQuantity(own?.capacity ?? "0") === freeBytes ? true : undefined;
  });
}
