// What becomes of volumes on a node's own disks when the node is lost: whoever has asked for it gets a new, empty volume elsewhere, all
// others wait for the node, and find everything as it was when that is back.
import { afterAll, beforeAll, expect, it } from "@jest/globals";
import { FILESYSTEMS } from "../../src/contracts/kinds/filesystem.ts";
import { FILESYSTEM_LAYOUTS } from "../../src/contracts/kinds/filesystem-layout.ts";
import { LOGICAL_VOLUMES } from "../../src/contracts/kinds/logical-volume.ts";
import { NODES, PERSISTENT_VOLUME_CLAIMS } from "../../src/contracts/kubernetes/resources.ts";
import { ON_NODE_LOSS_ANNOTATION } from "../../src/contracts/names.ts";
import { powerOff, powerOn } from "../cluster/node.ts";
import { nodeReady } from "../cluster/readiness.ts";
import { waitFor } from "../harness/wait-for.ts";
import { applyObject } from "./apply-object.ts";
import { localClass } from "./claiming-pod.ts";
import { type ClusterUnderTest, clusterOf, startClusterUnderTest } from "./cluster-under-test.ts";
import { describeOn } from "./describe-on.ts";
import { everyPodReady, install, LVM_OVERLAY, loadImages } from "./installed-tidemark.ts";
import { giveVolumeGroups, volumesOnNodes } from "./lvm-in-cluster.ts";
import { PODS } from "./pod.ts";
import { statefulWriter, WRITER_CLAIM, WRITER_POD, type Writer, writerIn } from "./stateful-writer.ts";
import { type SteadyWriter, steadyWriter } from "./steady-writer.ts";
import { whatIsThere } from "./what-is-there.ts";

const BUILD_LIMIT_MS = 3_600_000;
const LIMIT_MS = 600_000;
const CLASS = "e2e-lvm";
const OUT_OF_SERVICE = "node.kubernetes.io/out-of-service";
const [KEPT, LOST] = ["node1", "node2"] as const;
const WAITING_CLAIM = "data-waiting-0";

let tested: ClusterUnderTest;
let renewed: Writer;
let waiting: SteadyWriter;

const otherwise = (): Promise<string> => whatIsThere(tested);

async function until<T>(what: string, look: () => Promise<T | undefined>): Promise<T> {
  return waitFor(what, look, { limitMs: LIMIT_MS / 2, intervalMs: 300, otherwise });
}

async function claimUID(name: string): Promise<string | undefined> {
  const claim = await tested.client.get(PERSISTENT_VOLUME_CLAIMS, { namespace: tested.namespace, name });
  return claim?.metadata.uid;
}

async function nodeOf(pod: string): Promise<string | undefined> {
  return (await tested.client.get(PODS, { namespace: tested.namespace, name: pod }))?.spec.nodeName;
}

async function stalledIs(claim: string, wanted: "True" | "False"): Promise<void> {
  await until(`Filesystem ${claim} to be ${wanted === "True" ? "" : "not "}Stalled`, async () => {
    const filesystem = await tested.client.get(FILESYSTEMS, { namespace: tested.namespace, name: claim });
    const stalled = filesystem?.status?.conditions?.find(({ type }) => type === "Stalled");
    if (stalled?.status !== wanted) return undefined;
    return wanted === "False" || stalled.reason === "NodeLost" ? true : undefined;
  });
}

describeOn("ours", "volumes of a node that is lost", ["bundle", "lvm"], () => {
  let firstUID: string | undefined;
  let waitingUID: string | undefined;

  beforeAll(async () => {
    tested = await startClusterUnderTest();
    await loadImages(tested);
    await giveVolumeGroups(clusterOf(tested));
    await install(tested, LVM_OVERLAY);
    await applyObject(tested, localClass(CLASS, { backend: "lvm" }));
    await tested.kubectl("cordon", KEPT);
    renewed = writerIn(tested);
    const annotations = { [ON_NODE_LOSS_ANNOTATION]: "Delete" };
    await applyObject(tested, statefulWriter(tested.image, CLASS, "1Gi", annotations));
    waiting = steadyWriter(tested, "waiting", { run: "StatefulSet", className: CLASS });
    for (const object of waiting.objects) await applyObject(tested, object);
    await Promise.all([renewed.running(), waiting.running()]);
    await renewed.write(["before"]);
    await tested.kubectl("uncordon", KEPT);
    [firstUID, waitingUID] = [await claimUID(WRITER_CLAIM), await claimUID(WAITING_CLAIM)];
  }, BUILD_LIMIT_MS);

  afterAll(() => tested?.close(), LIMIT_MS);

  it(
    "touches no claim while nobody has said that the node is out of service",
    async () => {
      await powerOff(clusterOf(tested), LOST);
      await until(`${LOST} to be NotReady`, async () => {
        const node = await tested.client.get(NODES, { name: LOST });
        const ready = node?.status?.conditions?.find(({ type }) => type === "Ready");
        return ready?.status === "True" ? undefined : true;
      });
      expect([await claimUID(WRITER_CLAIM), await claimUID(WAITING_CLAIM)]).toEqual([firstUID, waitingUID]);
    },
    LIMIT_MS,
  );

  it(
    "gives a claim that asked for it a new volume elsewhere, and says of the other one what it waits for",
    async () => {
      await tested.kubectl("taint", "node", LOST, `${OUT_OF_SERVICE}=nodeshutdown:NoExecute`);
      await until("a new claim", async () => {
        const uid = await claimUID(WRITER_CLAIM);
        return uid !== undefined && uid !== firstUID ? true : undefined;
      });
      await renewed.running();
      expect(await nodeOf(WRITER_POD)).toBe(KEPT);
      await renewed.write(["after"]);
      expect(await renewed.damaged()).toBe("");

      await stalledIs(WAITING_CLAIM, "True");
      const select = `involvedObject.name=${WAITING_CLAIM},reason=NodeLost`;
      const said = await tested.kubectl(
        "get",
        "events",
        "--field-selector",
        select,
        "-o",
        "jsonpath={.items[*].message}",
      );
      expect(said).toContain(LOST);
      expect(await claimUID(WAITING_CLAIM)).toBe(waitingUID);
    },
    LIMIT_MS,
  );

  it(
    "finds everything on the node when that is back, and takes away what nobody claims any more",
    async () => {
      const cluster = clusterOf(tested);
      await powerOn(cluster, LOST);
      await nodeReady(cluster, LOST);
      await tested.kubectl("taint", "node", LOST, `${OUT_OF_SERVICE}-`);
      await waiting.running();
      expect(await nodeOf("waiting-0")).toBe(LOST);
      expect([await waiting.damaged(), waiting.failures()]).toEqual(["", ""]);
      await stalledIs(WAITING_CLAIM, "False");
      await everyPodReady(tested);
      await until("one volume on each node", async () => {
        const nodes = (await volumesOnNodes(cluster)).map(({ node }) => node).sort();
        const [layouts, volumes] = await Promise.all([
          tested.client.list(FILESYSTEM_LAYOUTS),
          tested.client.list(LOGICAL_VOLUMES),
        ]);
        return nodes.join() === [KEPT, LOST].sort().join() && layouts.items.length === 2 && volumes.items.length === 2
          ? true
          : undefined;
      });
      expect(await renewed.damaged()).toBe("");
    },
    LIMIT_MS,
  );
});
