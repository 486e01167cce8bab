// The operator's own metrics: what it was asked, what it did, how long that took; what members hold of their classes' storage, by which
// the team that pays for a class finds the namespace; and how many volumes are out of reach since their node is lost. Labels are closed
// sets, but for those of member bytes; no volume's handle is among them.
import { Counter, Gauge, Histogram, type Registry } from "prom-client";
import type { LastOperation } from "../contracts/kinds/filesystem-layout.ts";
import { objectKey } from "../contracts/kubernetes/object.ts";
import type { PersistentVolumeClaim } from "../contracts/kubernetes/resources.ts";
import { parseQuantity } from "../contracts/quantities/quantity.ts";
import type { Reflector } from "../platform/kube/cache/reflector.ts";
import { createMetricsRegistry } from "../platform/process/metrics/metrics-server.ts";
import type { VolumeCaches } from "./gather/volume-caches.ts";
import { lossOf, nodeOfLocal, wantsDeletion } from "./node-loss/decide-node-loss.ts";

export interface OperatorMetrics {
  readonly registry: Registry;
  csiCall(method: string, code: string, durationMs: number): void;
  reconciled(end: string, durationMs: number): void;
  rebuilt(kind: "Filesystem" | "FilesystemLayout" | "LogicalVolume"): void;
  lostNodeClaimDeleted(): void;
  /** Superseded: something newer was decided before it had ended. */
  consolidated(outcome: LastOperation["outcome"] | "Superseded"): void;
}

const DURATION_BUCKETS_SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];

export function createOperatorMetrics(): OperatorMetrics {
  const registry = createMetricsRegistry();
  const csiCalls = new Histogram({
    name: "tidemark_operator_csi_call_duration_seconds",
    help: "CSI calls by method and gRPC code.",
    labelNames: ["method", "code"],
    buckets: DURATION_BUCKETS_SECONDS,
    registers: [registry],
  });
  const reconciles = new Histogram({
    name: "tidemark_operator_reconcile_duration_seconds",
    help: "Reconciles of one volume, by how they ended.",
    labelNames: ["end"],
    buckets: DURATION_BUCKETS_SECONDS,
    registers: [registry],
  });
  const rebuilds = new Counter({
    name: "tidemark_operator_rebuilt_objects_total",
    help: "Deleted objects that were rebuilt from their records.",
    labelNames: ["kind"],
    registers: [registry],
  });
  const lostNodeClaims = new Counter({
    name: "tidemark_operator_lost_node_claims_deleted_total",
    help: "Claims that were deleted since the only node of their volume was lost, and their annotation asks for that.",
    registers: [registry],
  });
  const consolidations = new Counter({
    name: "tidemark_operator_consolidations_total",
    help: "Filesystems whose members were merged for the attach slots of a pod, by how that ended.",
    labelNames: ["outcome"],
    registers: [registry],
  });
  return {
    registry,
    csiCall: (method, code, durationMs) => csiCalls.observe({ method, code }, durationMs / 1000),
    reconciled: (end, durationMs) => reconciles.observe({ end }, durationMs / 1000),
    rebuilt: (kind) => rebuilds.inc({ kind }),
    lostNodeClaimDeleted: () => lostNodeClaims.inc(),
    consolidated: (outcome) => consolidations.inc({ outcome }),
  };
}

export interface MemberBytes {
  readonly namespace: string;
  readonly persistentvolumeclaim: string;
  readonly storageclass: string;
  readonly bytes: number;
}

/** Read from the caches when Prometheus asks. */
export function registerMemberBytes(registry: Registry, caches: Pick<VolumeCaches, "layouts" | "memberClaims">): void {
  const gauge: Gauge<"namespace" | "persistentvolumeclaim" | "storageclass"> = new Gauge({
    name: "tidemark_member_bytes",
    help: "Bytes of members' claims, by the claim whose filesystem they are part of and by their own StorageClass.",
    labelNames: ["namespace", "persistentvolumeclaim", "storageclass"],
    registers: [registry],
    collect: () => {
      gauge.reset();
      for (const { bytes, ...labels } of memberBytes(caches)) gauge.inc(labels, bytes);
    },
  });
}

/**
 * One entry for each member: what its claim has, and before that what it asks for. A member whose layout is lost has no
 * entry.
 */
export function memberBytes({ layouts, memberClaims }: Pick<VolumeCaches, "layouts" | "memberClaims">): MemberBytes[] {
  return layouts.store.list().flatMap(({ metadata, spec }) =>
    memberClaims.store.byIndex("volume", metadata.name).map((claim) => ({
      namespace: spec.claimRef?.namespace ?? "",
      persistentvolumeclaim: spec.claimRef?.name ?? "",
      storageclass: claim.spec.storageClassName ?? "",
      bytes: parseQuantity(claim.status?.capacity?.storage ?? claim.spec.resources?.requests?.storage ?? "0"),
    })),
  );
}

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
