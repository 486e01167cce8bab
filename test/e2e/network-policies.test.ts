// The component network-policies against the connections that Tidemark's processes really have: each of them is allowed by a rule, and each
// rule but those for Prometheus, which is not here, has a connection that needs it. The cluster's network enforces no policies: what it would
// refuse is judged from what is read.
import { afterAll, beforeAll, expect, it } from "@jest/globals";
import { NAMESPACES, type Namespace } from "../../src/contracts/kubernetes/resources.ts";
import { manifestsOf } from "../harness/kustomize.ts";
import {
  allowedBy,
  isIsolated,
  type NetworkPolicy,
  networkPoliciesOf,
  type PodPlace,
  type Sender,
} from "../harness/network-policies.ts";
import { applyObject } from "./apply-object.ts";
import { breathingPolicy } from "./breathing-policy.ts";
import { localClass } from "./claiming-pod.ts";
import { type ClusterUnderTest, clusterOf, startClusterUnderTest } from "./cluster-under-test.ts";
import { describeOn } from "./describe-on.ts";
import {
  install,
  loadImages,
  loadScheduler,
  NETWORK_POLICIES_OVERLAY,
  SYSTEM_NAMESPACE,
} from "./installed-tidemark.ts";
import { giveVolumeGroups } from "./lvm-in-cluster.ts";
import { makeMarkedPods, release, removePods, runningOn, until } from "./placed-pods.ts";
import { rolledOut } from "./placement-component.ts";
import { PODS, type Pod } from "./pod.ts";
import { type PodConnection, podConnections } from "./pod-connections.ts";

const BUILD_LIMIT_MS = 3_600_000;
const LIMIT_MS = 600_000;
const CLASS = "e2e-policed";
/** Connections that are short are there at some looks only. */
const WATCHED_MS = 30_000;

type PodSeen = Pod & { status?: { hostIP?: string } | undefined; spec: { hostNetwork?: boolean } };

let tested: ClusterUnderTest;
let policies: readonly NetworkPolicy[] = [];

const allPods = async (): Promise<PodSeen[]> => (await tested.client.list(PODS)).items;
const isOurs = ({ metadata }: Pod): boolean =>
  metadata.namespace === SYSTEM_NAMESPACE && metadata.labels?.["app.kubernetes.io/name"] === "tidemark";

/** Into Tidemark's pods, on all nodes. */
async function connectionsInto(pods: readonly PodSeen[]): Promise<PodConnection[]> {
  const addresses = new Set(pods.filter(isOurs).map(({ status }) => status?.podIP ?? ""));
  const nodes = [...new Set(pods.filter(isOurs).map(({ spec }) => spec.nodeName ?? ""))];
  return (await Promise.all(nodes.map((node) => podConnections(clusterOf(tested), node, addresses)))).flat();
}

/** What policies look at, of each pod that has an address of its own. */
async function placesByAddress(pods: readonly PodSeen[]): Promise<ReadonlyMap<string, PodPlace>> {
  const labels = new Map(
    (await tested.client.list(NAMESPACES)).items.map(({ metadata }: Namespace) => [
      metadata.name,
      metadata.labels ?? {},
    ]),
  );
  return new Map(
    pods
      .filter(({ spec }) => spec.hostNetwork !== true)
      .map(({ metadata, status }) => [
        status?.podIP ?? "",
        {
          namespace: metadata.namespace ?? "",
          namespaceLabels: labels.get(metadata.namespace ?? "") ?? {},
          labels: metadata.labels ?? {},
        },
      ]),
  );
}

/** Of its node, which no policy shuts out: the node's own address, or that of the pods' bridge on it. */
function isOwnNode({ podAddress, from }: PodConnection, pods: readonly PodSeen[]): boolean {
  const bridge = podAddress.replace(/\d+$/, "1");
  return from === bridge || pods.some(({ status }) => status?.podIP === podAddress && status.hostIP === from);
}

describeOn("ours", "the network policies", ["bundle"], () => {
  beforeAll(async () => {
    tested = await startClusterUnderTest();
    await loadImages(tested);
    await loadScheduler(tested);
    await giveVolumeGroups(clusterOf(tested));
    policies = networkPoliciesOf(manifestsOf(await tested.kubectl("kustomize", NETWORK_POLICIES_OVERLAY)));
    await install(tested, NETWORK_POLICIES_OVERLAY);
    for (const deployment of ["extender", "scheduler"]) await rolledOut(tested, deployment);
    await applyObject(tested, localClass(CLASS, { backend: "lvm" }));
  }, BUILD_LIMIT_MS);
  afterAll(() => tested?.close(), LIMIT_MS);

  it(
    "allow every connection into Tidemark's pods while a volume is made, and have no rule among their own that none needs",
    async () => {
      const rules = policies.flatMap(({ metadata, spec }) =>
        (spec.ingress ?? []).flatMap(({ from = [], ports }, index) =>
          from.some(({ namespaceSelector }) => namespaceSelector !== undefined)
            ? []
            : ports.map(({ port }) => `${metadata.name} ${index} ${port}`),
        ),
      );
      // Samples, questions to the extender, the webhooks of pods and of policies.
      expect(rules).toHaveLength(4);
      const [needed, refused] = [new Set<string>(), new Set<string>()];
      await makeMarkedPods(tested, ["policed"], { className: CLASS, request: "1Gi" });
      await release(tested, ["policed"]);
      await runningOn(tested, "policed");
      const untilMs = Date.now() + WATCHED_MS;
      let changes = 0;
      await until(tested, "every rule to be needed", async () => {
        changes += 1; // the webhook is asked about a policy whose spec has changed
        await applyObject(tested, breathingPolicy({ min: "1Gi", max: `${2 + (changes % 2)}Gi` }));
        const pods = await allPods();
        const places = await placesByAddress(pods);
        for (const connection of await connectionsInto(pods)) {
          const { podAddress, port, from } = connection;
          const place = places.get(podAddress);
          // Gone since the list.
          if (place === undefined) continue;
          expect(isIsolated(policies, place)).toBe(true);
          const sender: Sender = places.get(from) ?? "outside";
          const by = allowedBy(policies, place, port, sender);
          for (const rule of by) needed.add(`${rule} ${port}`);
          if (by.length === 0 && !isOwnNode(connection, pods))
            refused.add(`${place.labels["app.kubernetes.io/component"]} ${port} from ${from}`);
        }
        return (Date.now() >= untilMs && rules.every((rule) => needed.has(rule))) || undefined;
      }).catch((err: unknown) => {
        const missing = rules.filter((rule) => !needed.has(rule));
        throw new Error(`not needed: ${missing.join(", ")}; refused: ${[...refused].join(", ")}`, { cause: err });
      });
      expect([...refused]).toEqual([]);
      await removePods(tested, ["policed"]);
    },
    LIMIT_MS,
  );
});
