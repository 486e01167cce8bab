// Many nodes for a real API server and kube-scheduler, as objects alone, a thousand of them in the long run: whether the one node with room is found, and how many pods
// of a burst are put where there is no room. What is counted is read from the objects.
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, it } from "@jest/globals";
import { LOCAL_DRIVER } from "../../src/contracts/names.ts";
import { GIB } from "../../src/contracts/quantities/quantity.ts";
import { takesAll } from "../harness/sample.ts";
import { applyObject } from "./apply-object.ts";
import { localClass } from "./claiming-pod.ts";
import { type ClusterUnderTest, clusterOf, startClusterUnderTest } from "./cluster-under-test.ts";
import { describeOn } from "./describe-on.ts";
import { EXTENDER_USER, endExtender, extenderAnswers, startExtender } from "./extender-process.ts";
import { SYSTEM_NAMESPACE } from "./installed-tidemark.ts";
import { burstLimitMs, followBurst, type ObjectBurst } from "./object-burst.ts";
import { forAll, makeObjectNodes, type ObjectNodes, tellFree } from "./object-nodes.ts";
import { type ObjectVolumes, provisionOnObjects } from "./object-volumes.ts";
import { SECOND_SCHEDULER, startSecondScheduler } from "./second-scheduler.ts";

const BUILD_LIMIT_MS = 3_600_000;
const LIMIT_MS = 1_800_000;
const CLASS = "e2e-objects";
const KUSTOMIZE = fileURLToPath(new URL("../../kustomize", import.meta.url));
const NAMES = Array.from({ length: takesAll() ? 1000 : 100 }, (_, index) => `object-${String(index).padStart(4, "0")}`);
const ROOMY = "object-0077";
const REQUEST_GIB = 4;
const REQUEST_BYTES = REQUEST_GIB * GIB;
const NODE_BYTES = 100 * GIB;
/** kube-controller-manager binds each claim by three writes; with its default of 20 a second it would be slower than all others. */
const CONTROLLER_QPS = 500;
const BURST_COUNT = Number(process.env["TIDEMARK_PLACED_PODS"] ?? (takesAll() ? "150" : "40"));
/** Of the burst; for all others there is no room anywhere. */
const ROOM_SHARE = 0.9;
/** So many volumes fit on each node that has room at all. */
const PER_NODE = Math.max(3, Math.ceil((BURST_COUNT * ROOM_SHARE) / NAMES.length));
const ROOM_COUNT = Math.floor((BURST_COUNT * ROOM_SHARE) / PER_NODE) * PER_NODE;
/** Of the burst in which the extender is replaced. */
const UPGRADE_NODES = 20;
const UPGRADE_PER_NODE = 3;
const UPGRADE_TOO_MANY = 3;
/** What another version may do otherwise: fewer nodes are offered at a time. */
const NEXT_VERSION = ["--offered-nodes=16"];
const CAPACITY = { "tidemark.dev/capacity": "1" };
const PODS = {
  className: CLASS,
  request: `${REQUEST_GIB}Gi`,
  schedulerName: SECOND_SCHEDULER,
  resources: { requests: CAPACITY, limits: CAPACITY },
};

let tested: ClusterUnderTest;
let nodes: ObjectNodes;

/** What nobody has written on a node's own account stays as it is. */
async function setFree(free: ReadonlyMap<string, number>): Promise<void> {
  await forAll([...free], ([name, bytes]) => tellFree(nodes, name, bytes, NODE_BYTES));
}

/** Gives the nodes their room, and stands for all that makes volumes there; in the end all of it is gone that the burst has made. */
async function burstOn(
  prefix: string,
  free: ReadonlyMap<string, number>,
  work: (burst: ObjectBurst, volumes: ObjectVolumes) => Promise<void>,
): Promise<void> {
  await setFree(free);
  const volumes = await provisionOnObjects(nodes, new Map(free), NODE_BYTES);
  const burst = await followBurst(tested, prefix, PODS);
  try {
    await work(burst, volumes);
  } finally {
    await burst.stop();
    await volumes.stop();
  }
  await setFree(new Map([...free.keys()].map((name) => [name, 0])));
}

const nameOf = ({ metadata }: { readonly metadata: { readonly name: string } }): string => metadata.name;
const named = (prefix: string, count: number): string[] =>
  Array.from({ length: count }, (_, index) => `${prefix}${index}`);

function tell(line: string): void {
  process.stderr.write(`placement: ${line}\n`);
}

describeOn("own", `placement on ${NAMES.length} nodes`, ["bundle"], () => {
  beforeAll(async () => {
    // Nobody renews what these nodes say of themselves.
    tested = await startClusterUnderTest({ nodes: 0, nodeGraceSeconds: 1_000_000, controllerQps: CONTROLLER_QPS });
    nodes = { client: tested.client, namespace: tested.namespace, className: CLASS, publishes: true };
    await tested.kubectl("apply", "--server-side", "--kustomize", join(KUSTOMIZE, "foundation/crds"));
    await tested.kubectl("apply", "--server-side", "--filename", join(KUSTOMIZE, "foundation/csi-driver.yaml"));
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
    () =>
      burstOn("one-", new Map([[ROOMY, REQUEST_BYTES]]), async (burst) => {
        await burst.make(["one-a"]);
        await burst.settled(1, 1, /./);
        expect(burst.bound().map(({ spec }) => spec.nodeName)).toEqual([ROOMY]);
        await burst.make(["one-b"]);
        await burst.settled(2, 1, /did not have enough free storage/);
        await tested.kubectl("delete", "pod", "one-b", "--grace-period=0", "--force");
      }),
    LIMIT_MS,
  );

  it(
    "goes on with a burst in whose middle another process takes the extender's place, and gives no byte away twice",
    async () => {
      const cluster = clusterOf(tested);
      const free = new Map(NAMES.slice(-UPGRADE_NODES).map((name) => [name, UPGRADE_PER_NODE * REQUEST_BYTES]));
      const count = UPGRADE_NODES * UPGRADE_PER_NODE;
      await burstOn("upgrade-", free, async (burst, volumes) => {
        const names = named("upgrade-", count + UPGRADE_TOO_MANY);
        const third = Math.floor(names.length / 3);
        await burst.make(names.slice(0, third));
        await burst.boundAre(1);
        const meanwhile = burst.make(names.slice(third, 2 * third));
        const answeredBefore = await extenderAnswers(cluster);
        await endExtender(cluster);
        await meanwhile;
        // Some come while nobody answers: those wait for whoever comes next.
        await burst.make(names.slice(2 * third));
        const [bound, waiting] = [burst.bound().length, burst.waiting().length];
        expect(Math.min(answeredBefore, bound, waiting)).toBeGreaterThan(0);
        await startExtender(cluster, NEXT_VERSION);
        await burst.settled(names.length, count, /./);
        const late = new Set(names.slice(2 * third));
        const placedLate = burst.bound().filter((pod) => late.has(nameOf(pod)));
        expect(placedLate.length).toBeGreaterThan(0);
        expect(await extenderAnswers(cluster)).toBeGreaterThanOrEqual(placedLate.length);
        expect(await burst.overCommits(free)).toEqual([]);
        tell(`replaced after ${bound} of ${names.length} pods; refused later: ${volumes.refused.length}`);
        await tested.kubectl("delete", "pod", "--grace-period=0", "--force", ...burst.waiting().map(nameOf));
      });
    },
    LIMIT_MS,
  );

  it(
    "puts no pod of a burst where there is no room for it, where nobody but the extender looks at room",
    async () => {
      // The scheduler's own check of capacities goes through all of them for each candidate: with a thousand nodes that is most of what a
      // pod costs. Without it the extender alone stands between the burst and an over-commit.
      const unchecked = JSON.stringify({ spec: { storageCapacity: false } });
      await tested.kubectl("patch", "csidriver", LOCAL_DRIVER, "--patch", unchecked);
      nodes = { ...nodes, publishes: false };
      const roomy = NAMES.slice(0, ROOM_COUNT / PER_NODE);
      const free = new Map(roomy.map((name) => [name, PER_NODE * REQUEST_BYTES]));
      await burstOn("burst-", free, async (burst, volumes) => {
        await burst.make(named("burst-", BURST_COUNT));
        await burst.settled(BURST_COUNT, ROOM_COUNT, /./);
        const wrong = await burst.overCommits(free);
        const seconds = burst.seconds();
        const rate = (ROOM_COUNT / seconds).toFixed(1);
        tell(
          `${ROOM_COUNT} of ${BURST_COUNT} pods placed in ${seconds.toFixed(1)} s, ${rate} pods/s; ` +
            `${wrong.length} over-commits, ${volumes.refused.length} refused`,
        );
        expect(wrong).toEqual([]);
        expect(volumes.refused).toEqual([]);
      });
    },
    LIMIT_MS + burstLimitMs(BURST_COUNT),
  );
});
