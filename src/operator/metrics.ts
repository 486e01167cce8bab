// The operator's own metrics: what it was asked, what it did, how long that took. Labels are closed sets; no volume's name
// is among them.
import { Counter, Histogram, type Registry } from "prom-client";
import type { LastOperation } from "../api/filesystem-layout.ts";
import { createMetricsRegistry } from "../process/metrics-registry.ts";

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
    help: "Objects that somebody had deleted and that were made again from their records.",
    labelNames: ["kind"],
    registers: [registry],
  });
  const lostNodeClaims = new Counter({
    name: "tidemark_operator_lost_node_claims_deleted_total",
    help: "Claims that were deleted, as they say themselves, since the only node of their volume was lost.",
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
