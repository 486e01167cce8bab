// What the engine counts of itself. Names follow Prometheus' conventions; per-volume figures are the agents'.
import { Counter, Gauge, Histogram } from "prom-client";
import { createMetricsRegistry } from "../platform/process/metrics/metrics-server.ts";

export type EngineMetrics = ReturnType<typeof createEngineMetrics>;

export function createEngineMetrics(isLeader: () => boolean) {
  const registry = createMetricsRegistry();
  const registers = [registry];
  new Gauge({
    name: "tidemark_policy_engine_leader",
    help: "1 while this replica leads.",
    registers,
    collect() {
      this.set(isLeader() ? 1 : 0);
    },
  });
  return {
    registry,
    decisions: new Counter({
      name: "tidemark_decisions_total",
      help: "Decisions that changed what is known of a volume, by plan and reason.",
      labelNames: ["plan", "reason"] as const,
      registers,
    }),
    targets: new Counter({
      name: "tidemark_targets_applied_total",
      help: "Targets written, by plan.",
      labelNames: ["plan"] as const,
      registers,
    }),
    refusedWrites: new Counter({
      name: "tidemark_writes_refused_total",
      help: "Writes that the API server refused or did not answer, by reason, and targets that waited for the engine's own rate.",
      labelNames: ["reason"] as const,
      registers,
    }),
    cycles: new Histogram({
      name: "tidemark_evaluation_cycle_duration_seconds",
      help: "One round over all volumes, Prometheus included.",
      labelNames: ["outcome"] as const,
      buckets: [0.01, 0.05, 0.1, 0.5, 1, 2, 5, 10, 30],
      registers,
    }),
  };
}
