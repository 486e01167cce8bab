// Where this node is, as kubelet registers it with a driver. A span may be used on other nodes, too: csi-provisioner compares region and
// zone with the class' allowedTopologies. They are what the Node says at that moment: kubelet refuses a driver that says anything else.
import { TOPOLOGY_NODE, TOPOLOGY_PLACES } from "../../api/names.ts";
import type { Driver } from "../../csi/driver.ts";
import { Refusal } from "../../csi/refusal.ts";
import type { KubeClient } from "../../kube/client/client.ts";
import { isKubeError } from "../../kube/kube-error.ts";
import { NODES, type Node } from "../../kube/resources.ts";
import type { Clock } from "../../process/clock.ts";

/** The segments of a driver's topology; kubelet asks again after a refusal. Throws KubeError. */
export type NodePlace = (driver: Driver) => Promise<Readonly<Record<string, string>> | Refusal>;

/** Of a node that has just come: its cloud provider has not labelled it yet. */
const UNINITIALIZED_TAINT = "node.cloudprovider.kubernetes.io/uninitialized";
/** A cloud provider labels a node within a minute; without one the taint may stay, and the driver is needed all the same. */
const LABELS_WAIT_LIMIT_MS = 300_000;

export function createNodePlace(
  client: Pick<KubeClient, "get">,
  nodeName: string,
  clock: Pick<Clock, "monotonicMs">,
): NodePlace {
  const startedMs = clock.monotonicMs();
  return async ({ attaches }) => {
    const own = { [TOPOLOGY_NODE]: nodeName };
    if (!attaches) return own;
    const node = await readNode(client, nodeName);
    const labels = node?.metadata.labels ?? {};
    const places = TOPOLOGY_PLACES.flatMap((key) => (labels[key] ? [[key, labels[key]] as const] : []));
    if (places.length === 0 && isUnlabelledYet(node) && clock.monotonicMs() - startedMs < LABELS_WAIT_LIMIT_MS)
      return new Refusal(
        "UNAVAILABLE",
        `node ${nodeName} has the taint ${UNINITIALIZED_TAINT}: its zone is not known yet`,
      );
    return { ...own, ...Object.fromEntries(places) };
  };
}

/** Undefined: it is not there, or the agent's role is of an earlier version and does not let it read nodes. */
async function readNode(client: Pick<KubeClient, "get">, name: string): Promise<Node | undefined> {
  try {
    return await client.get(NODES, { name });
  } catch (error) {
    if (isKubeError(error, "Forbidden")) return undefined;
    throw error;
  }
}

function isUnlabelledYet(node: Node | undefined): boolean {
  return node?.spec?.taints?.some(({ key }) => key === UNINITIALIZED_TAINT) === true;
}
