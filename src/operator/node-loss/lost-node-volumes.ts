// How many volumes are out of reach since their node is lost, by what their claims say is to become of them.
import { Gauge, type Registry } from "prom-client";
import type { Reflector } from "../../kube/cache/reflector.ts";
import { objectKey } from "../../kube/object.ts";
import type { PersistentVolumeClaim } from "../../kube/resources.ts";
import type { VolumeCaches } from "../volume/volume-caches.ts";
import { wantsDeletion } from "./decide-claim-deletion.ts";
import { lossOf, nodeOfLocal } from "./lost-node.ts";

type Caches = Pick<VolumeCaches, "layouts" | "nodes">;

/** Read from the caches when Prometheus asks. */
export function registerLostNodeVolumes(
  registry: Registry,
  caches: Caches,
  claims: Reflector<PersistentVolumeClaim>,
): void {
  const gauge: Gauge<"on_loss"> = new Gauge({
    name: "tidemark_operator_lost_node_volumes",
    help: "Volumes whose only node is gone or out of service, by what their claims say (Delete) or do not (Keep).",
    labelNames: ["on_loss"],
    registers: [registry],
    collect: () => {
      for (const [onLoss, count] of Object.entries(lostNodeVolumes(caches, claims)))
        gauge.set({ on_loss: onLoss }, count);
    },
  });
}

function lostNodeVolumes(
  { layouts, nodes }: Caches,
  claims: Reflector<PersistentVolumeClaim>,
): Record<"Delete" | "Keep", number> {
  const counts = { Delete: 0, Keep: 0 };
  for (const layout of layouts.store.list()) {
    const nodeName = nodeOfLocal(layout);
    if (nodeName === undefined || lossOf(nodes.store.get(nodeName)) === undefined) continue;
    const { namespace, name = "" } = layout.spec.claimRef ?? {};
    const claim = claims.store.get(objectKey({ namespace, name }));
    counts[claim !== undefined && wantsDeletion(claim) ? "Delete" : "Keep"] += 1;
  }
  return counts;
}
