// A thousand nodes for a real API server and kube-scheduler, as objects alone: whether the one node with room is found, and how many pods
// of a burst are put where there is no room. What is counted is read from the objects.
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, it } from "@jest/globals";
import { LOGICAL_VOLUMES } from "../../src/api/logical-volume.ts";
import type { KubeObject } from "../../src/kube/object.ts";
import { PERSISTENT_VOLUME_CLAIMS, type PersistentVolumeClaim } from "../../src/kube/resources.ts";
import { GIB, parseQuantity } from "../../src/units/quantity.ts";
import { describeReal } from "../harness/real-parts.ts";
import { waitFor } from "../harness/wait-for.ts";
import { applyObject } from "./apply-object.ts";
import { claimingPod, claimOf, localClass } from "./claiming-pod.ts";
import { type ClusterUnderTest, clusterKind, clusterOf, startClusterUnderTest } from "./cluster-under-test.ts";
import { EXTENDER_USER, startExtender } from "./extender-process.ts";
import { SYSTEM_NAMESPACE } from "./installed-tidemark.ts";
import { forAll, makeObjectNodes, type ObjectNodes, publishFree, reportFree } from "./object-nodes.ts";
import { provisionOnObjects } from "./object-volumes.ts";
import { whyNotPlaced } from "./placed-pods.ts";
import { PODS, type Pod } from "./pod.ts";
import { SECOND_SCHEDULER, startSecondScheduler } from "./second-scheduler.ts";

const BUILD_LIMIT_MS = 3_600_000;
const LIMIT_MS = 1_800_000;
const CLASS = "e2e-objects";
const KUSTOMIZE = fileURLToPath(new URL("../../kustomize", import.meta.url));
const NAMES = Array.from({ length: 1000 }, (_, index) => `object-${String(index).padStart(4, "0")}`);
const ROOMY = "object-0777";
const REQUEST_GIB = 4;
const REQUEST_BYTES = REQUEST_GIB * GIB;
const NODE_BYTES = 100 * GIB;
const BURST_COUNT = Number(process.env["TIDEMARK_PLACED_PODS"] ?? "150");
/** So many volumes fit on each node that has room at all. */
const PER_NODE = 3;
/** Of the burst; for all others there is no room anywhere. */
const ROOM_COUNT = Math.floor((BURST_COUNT * 0.9) / PER_NODE) * PER_NODE;

let tested: ClusterUnderTest;
let nodes: ObjectNodes;

/** What nobody has written on a node's own account stays as it is. */
async function setFree(free: ReadonlyMap<string, number>): Promise<void> {
  await forAll([...free], async ([name, bytes]) => {
    await reportFree(nodes, name, bytes, NODE_BYTES);
    await publishFree(nodes, name, bytes);
  });
}

async function makePods(names: readonly string[]): Promise<void> {
  const { client, namespace } = tested;
  const capacity = { "tidemark.dev/capacity": "1" };
  const inNamespace = <T extends KubeObject>(object: object): T => {
    const made = object as T;
    return { ...made, metadata: { ...made.metadata, namespace } };
  };
  await forAll(names, async (name) => {
    const claim = inNamespace<PersistentVolumeClaim>(claimOf(name, CLASS, `${REQUEST_GIB}Gi`));
    await client.create("e2e/claim", PERSISTENT_VOLUME_CLAIMS, claim);
    const pod = inNamespace<Pod>(claimingPod(name, tested.image, name));
    const containers = pod.spec.containers.map((container) => ({
      ...container,
      resources: { requests: capacity, limits: capacity },
    }));
    const spec = { ...pod.spec, schedulerName: SECOND_SCHEDULER, containers };
    await client.create("e2e/pod", PODS, { ...pod, spec });
  });
}

async function podsNamed(prefix: string): Promise<Pod[]> {
  const { items } = await tested.client.list(PODS, { namespace: tested.namespace });
  return items.filter(({ metadata }) => metadata.name.startsWith(prefix));
}

/** So many are bound to nodes, and each of the others says this of why it is not. */
async function untilPlaced(prefix: string, count: number, why: RegExp): Promise<Pod[]> {
  let seen: Pod[] = [];
  return waitFor(
    `${count} of the pods ${prefix}… to be placed, and all others to say why not`,
    async () => {
      seen = await podsNamed(prefix);
      const waiting = seen.filter(({ spec }) => spec.nodeName === undefined);
      const isSettled = seen.length - waiting.length === count && waiting.every((pod) => why.test(whyNotPlaced(pod)));
      return isSettled ? seen : undefined;
    },
    {
      limitMs: LIMIT_MS / 2,
      intervalMs: 500,
      otherwise: () => {
        const placed = seen.filter(({ spec }) => spec.nodeName !== undefined).length;
        return `${placed} of ${seen.length} are; the others say: ${[...new Set(seen.map(whyNotPlaced))].join(" | ")}`;
      },
    },
  );
}

/** Nodes where the claims that were given to them are more than what there was. */
async function overCommitted(free: ReadonlyMap<string, number>): Promise<string[]> {
  const taken = new Map<string, number>();
  for (const { spec } of (await tested.client.list(LOGICAL_VOLUMES)).items)
    taken.set(spec.nodeName, (taken.get(spec.nodeName) ?? 0) + parseQuantity(spec.size));
  return [...taken].filter(([node, bytes]) => bytes > (free.get(node) ?? 0)).map(([node]) => node);
}

if (clusterKind() !== "own") it.skip("needs a cluster of its own, without kubelets", () => undefined);
else
  describeReal("placement on a thousand nodes", ["bundle", "cluster"], () => {
    beforeAll(async () => {
      // Nobody renews what these nodes say of themselves.
      tested = await startClusterUnderTest({ nodes: 0, nodeGraceSeconds: 1_000_000 });
      nodes = { client: tested.client, namespace: tested.namespace, className: CLASS };
      await tested.kubectl("apply", "--server-side", "--kustomize", join(KUSTOMIZE, "base/crds"));
      await tested.kubectl("apply", "--server-side", "--filename", join(KUSTOMIZE, "base/csi-driver.yaml"));
      await applyObject(tested, localClass(CLASS, { backend: "lvm" }));
      await makeObjectNodes(nodes, new Map(NAMES.map((name) => [name, 0])), NODE_BYTES);
      await tested.kubectl("apply", "--server-side", "--filename", join(KUSTOMIZE, "base/namespace.yaml"));
      const roles = join(KUSTOMIZE, "components/placement/extender-roles.yaml");
      await tested.kubectl("apply", "--namespace", SYSTEM_NAMESPACE, "--server-side", "--filename", roles);
      const binding = ["--clusterrole=tidemark-extender", `--user=${EXTENDER_USER}`];
      await tested.kubectl("create", "clusterrolebinding", "extender", ...binding);
      await startSecondScheduler(clusterOf(tested), await startExtender(clusterOf(tested)));
    }, BUILD_LIMIT_MS);

    afterAll(() => tested?.close(), LIMIT_MS);

    it(
      "finds the one node with room, and says of the next pod that there is none",
      async () => {
        const free = new Map([[ROOMY, REQUEST_BYTES]]);
        await setFree(free);
        const volumes = await provisionOnObjects(nodes, free, NODE_BYTES);
        await makePods(["one-a"]);
        const [first] = await untilPlaced("one-a", 1, /./);
        expect(first?.spec.nodeName).toBe(ROOMY);
        await makePods(["one-b"]);
        await untilPlaced("one-b", 0, /did not have enough free storage/);
        await volumes.stop();
        await tested.kubectl("delete", "pod,pvc", "one-a", "one-b", "--grace-period=0", "--force");
        await tested.kubectl("delete", "logicalvolumes", "--all");
      },
      LIMIT_MS,
    );

    it(
      "puts no pod of a burst where there is no room for it",
      async () => {
        const roomy = NAMES.slice(0, ROOM_COUNT / PER_NODE);
        const free = new Map(roomy.map((name) => [name, PER_NODE * REQUEST_BYTES]));
        await setFree(free);
        const volumes = await provisionOnObjects(nodes, new Map(free), NODE_BYTES);
        const names = Array.from({ length: BURST_COUNT }, (_, index) => `burst-${index}`);
        await makePods(names);
        await untilPlaced("burst-", ROOM_COUNT, /./);
        await volumes.stop();
        expect(await overCommitted(free)).toEqual([]);
        expect(volumes.refused).toEqual([]);
      },
      LIMIT_MS,
    );
  });
