// When a node counts as lost, and with it what lies on its disks: somebody has said that it is shut down, or it is in the cluster no
// more. One that only does not answer is not lost: its pods may run on. Pure.
import type { FilesystemLayout } from "../../api/filesystem-layout.ts";
import { LOCAL } from "../../csi/driver.ts";
import type { Node } from "../../kube/resources.ts";
import { isRemoving } from "../volume/layout-facts.ts";

/** Set by people, or by what they have put in charge, once a node is certainly down (Kubernetes' non-graceful node shutdown). */
const OUT_OF_SERVICE = "node.kubernetes.io/out-of-service";

export type NodeLoss = "gone" | "out of service";

/** Undefined: it is not lost. `node` undefined: the API server has none. */
export function lossOf(node: Node | undefined): NodeLoss | undefined {
  if (node === undefined) return "gone";
  return (node.spec?.taints ?? []).some(({ key }) => key === OUT_OF_SERVICE) ? "out of service" : undefined;
}

/** The node that has a volume's only data; undefined: it can go elsewhere, or is on its way out. */
export function nodeOfLocal(layout: FilesystemLayout): string | undefined {
  const isLocal = LOCAL.backends.some((backend) => backend === layout.spec.backend);
  return isLocal && !isRemoving(layout) ? layout.spec.nodeName : undefined;
}

export function describeLoss(nodeName: string, loss: NodeLoss): string {
  return loss === "gone" ? `node ${nodeName} is in the cluster no more` : `node ${nodeName} is out of service`;
}
