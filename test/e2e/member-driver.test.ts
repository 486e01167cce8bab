// The member driver as the suites of this cluster use it: installed once, with volumes of its class in pods, before anything of
// Tidemark has a part in it. With MEMBER_DRIVER and MEMBER_CLASS the same is asked of any other driver.
import { afterAll, beforeAll, expect, it } from "@jest/globals";
import { NODES, PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES } from "../../src/contracts/kubernetes/resources.ts";
import type { Cluster } from "../cluster/cluster-state.ts";
import { powerOff, powerOn } from "../cluster/node.ts";
import { nodeReady } from "../cluster/readiness.ts";
import { waitFor } from "../harness/wait-for.ts";
import { MEMBER_CLASS, MEMBER_DRIVER } from "../member-driver/config.ts";
import { installMemberDriver } from "../member-driver/install.ts";
import { readRpcLog } from "../member-driver/rpc-log.ts";
import { type ClusterUnderTest, startClusterUnderTest } from "./cluster-under-test.ts";
import { describeOn, itOn } from "./describe-on.ts";
import { PODS, scriptPod } from "./pod.ts";

/** A cluster's programs may have to be built first. */
const BUILD_LIMIT_MS = 3_600_000;
/** Of it, kubelet's part of an expansion takes a minute and more. */
const LIMIT_MS = 420_000;
const WAITS = "trap exit TERM; while :; do sleep 1; done";

const OUT_OF_SERVICE = "node.kubernetes.io/out-of-service";

type Mode = "Filesystem" | "Block";

let tested: ClusterUnderTest;
let nodes: string[];
let directory: string | undefined;

async function createClaim(name: string, volumeMode: Mode): Promise<void> {
  const resources = { requests: { storage: "1Gi" } };
  await tested.client.create("e2e/claim", PERSISTENT_VOLUME_CLAIMS, {
    apiVersion: "v1",
    kind: "PersistentVolumeClaim",
    metadata: { namespace: tested.namespace, name },
    spec: { storageClassName: MEMBER_CLASS, volumeMode, accessModes: ["ReadWriteOnce"], resources },
  } as object as Parameters<typeof tested.client.create>[2]);
}

/** Resolves when it runs on the node, its claim at /data or /dev/data. */
async function runPodWith(claim: string, mode: Mode, node: string): Promise<void> {
  const pod = scriptPod(tested, claim, "", WAITS);
  const { nodeName: _, containers, ...spec } = pod.spec;
  const volume =
    mode === "Block"
      ? { volumeDevices: [{ name: "data", devicePath: "/dev/data" }] }
      : { volumeMounts: [{ name: "data", mountPath: "/data" }] };
  const withVolume = {
    ...spec,
    nodeSelector: { "kubernetes.io/hostname": node },
    containers: containers.map((container) => ({ ...container, ...volume })),
    volumes: [{ name: "data", persistentVolumeClaim: { claimName: claim } }],
  };
  await tested.client.create("e2e/pod", PODS, { ...pod, spec: withVolume });
  await waitFor(
    `pod ${claim} to run on ${node}`,
    async () => {
      const { spec: at, status } = (await tested.client.get(PODS, { namespace: tested.namespace, name: claim })) ?? {};
      return status?.phase === "Running" && at?.nodeName === node ? true : undefined;
    },
    { limitMs: LIMIT_MS / 2, intervalMs: 200, otherwise: whatIsThere },
  );
}

const whatIsThere = async (): Promise<string> => {
  const rpcs = directory === undefined ? [] : readRpcLog(directory).slice(-20);
  return `${await tested.kubectl("describe", "pods,pvc")}\n${rpcs.map((rpc) => JSON.stringify(rpc)).join("\n")}`;
};

const inPod = (pod: string, script: string): Promise<string> => tested.kubectl("exec", pod, "--", "sh", "-ec", script);

async function sizeIsAtLeast(pod: string, script: string, leastKib: number): Promise<void> {
  await waitFor(
    `${pod} to see ${leastKib} KiB`,
    async () => (Number(await inPod(pod, script)) >= leastKib ? true : undefined),
    { limitMs: LIMIT_MS / 2, intervalMs: 1000, otherwise: whatIsThere },
  );
}

describeOn("any", "the member driver in a cluster", [], () => {
  beforeAll(async () => {
    tested = await startClusterUnderTest();
    directory = await installMemberDriver(tested);
    nodes = (await tested.client.list(NODES)).items.map(({ metadata }) => metadata.name);
  }, BUILD_LIMIT_MS);

  afterAll(() => tested?.close(), LIMIT_MS);

  it(
    "gives pods on two nodes a filesystem and a block volume",
    async () => {
      const [first = "", second = ""] = nodes;
      await Promise.all([createClaim("files", "Filesystem"), createClaim("device", "Block")]);
      await Promise.all([runPodWith("files", "Filesystem", first), runPodWith("device", "Block", second)]);
      await inPod("files", "echo tide > /data/file; sync");
      await inPod("device", "echo mark | dd of=/dev/data bs=512 conv=sync,fsync 2>/dev/null");
    },
    LIMIT_MS,
  );

  it(
    "grows both while they are in use",
    async () => {
      const patch = '{"spec":{"resources":{"requests":{"storage":"2Gi"}}}}';
      await Promise.all(["files", "device"].map((claim) => tested.kubectl("patch", "pvc", claim, "--patch", patch)));
      await Promise.all([
        sizeIsAtLeast("files", "df -k /data | awk 'NR == 2 { print $2 }'", 1.9 * 1024 * 1024),
        sizeIsAtLeast("device", "echo $(($(blockdev --getsize64 /dev/data) / 1024))", 2 * 1024 * 1024),
      ]);
      expect(await inPod("files", "cat /data/file")).toBe("tide\n");
    },
    LIMIT_MS,
  );

  it(
    "lets both move to the other node with what is on them",
    async () => {
      const [first = "", second = ""] = nodes;
      await tested.kubectl("delete", "pod", "files", "device", "--wait");
      await Promise.all([runPodWith("files", "Filesystem", second), runPodWith("device", "Block", first)]);
      expect(await inPod("files", "cat /data/file")).toBe("tide\n");
      expect((await inPod("device", "head -c 5 /dev/data")).trim()).toBe("mark");
    },
    LIMIT_MS,
  );

  itOn(
    "ours",
    "gives up what a node without power had, once that node is said to be out of service",
    async () => {
      const cluster = tested.cluster as Cluster;
      const [first = "", second = ""] = nodes;
      await tested.kubectl("delete", "pod", "device", "--wait");
      await runPodWith("device", "Block", second);
      await powerOff(cluster, second);
      await tested.kubectl("taint", "node", second, `${OUT_OF_SERVICE}=:NoExecute`);
      await tested.kubectl("wait", "--for=delete", "pod/files", "pod/device", `--timeout=${LIMIT_MS / 2000}s`);
      await Promise.all([runPodWith("files", "Filesystem", first), runPodWith("device", "Block", first)]);
      expect(await inPod("files", "cat /data/file")).toBe("tide\n");
      expect((await inPod("device", "head -c 5 /dev/data")).trim()).toBe("mark");
      await tested.kubectl("taint", "node", second, `${OUT_OF_SERVICE}-`);
      await powerOn(cluster, second);
      await nodeReady(cluster, second);
    },
    LIMIT_MS,
  );

  it(
    "leaves nothing of claims that are deleted",
    async () => {
      await tested.kubectl("delete", "pod", "files", "device", "--wait");
      await tested.kubectl("delete", "pvc", "files", "device", "--wait");
      await waitFor(
        "the volumes to be gone",
        async () => {
          const { items } = await tested.client.list(PERSISTENT_VOLUMES);
          const ours = items.filter((volume) => JSON.stringify(volume.spec).includes(MEMBER_DRIVER));
          return ours.length === 0 ? true : undefined;
        },
        { limitMs: LIMIT_MS / 2, intervalMs: 500, otherwise: whatIsThere },
      );
    },
    LIMIT_MS,
  );
});
