// The extender's own metrics: what it was asked, why nodes were refused, what is taken, and which nodes cannot be judged. Labels are
// closed sets.
import { Counter, Gauge, Histogram, type Registry } from "prom-client";
import { createMetricsRegistry } from "../platform/process/metrics/metrics-server.ts";
import type { Ledger } from "./apply/ledger.ts";
import { type FitFailureReason, isUnheard } from "./decide/decide-fit.ts";
import type { ClusterView } from "./gather/cluster-view.ts";
import type { FilterAnswer } from "./place-pods.ts";

export type Verb = "filter" | "prioritize";

export interface ExtenderMetrics {
  readonly registry: Registry;
  answered(verb: Verb, status: string, durationMs: number): void;
  filtered(answer: FilterAnswer): void;
  /** A question was about a pod that is not there as it says. */
  notThere(): void;
}

const DURATION_BUCKETS_SECONDS = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1];

/** The gauges are read when Prometheus asks. */
export function createExtenderMetrics(view: ClusterView, ledger: Ledger, nowMs: () => number): ExtenderMetrics {
  const registry = createMetricsRegistry();
  const requests = new Histogram({
    name: "tidemark_extender_request_duration_seconds",
    help: "Questions of schedulers by verb and HTTP status.",
    labelNames: ["verb", "status"],
    buckets: DURATION_BUCKETS_SECONDS,
    registers: [registry],
  });
  const refused = new Counter({
    name: "tidemark_extender_refused_nodes_total",
    help: "Candidates that a pod was refused on, by reason.",
    labelNames: ["reason"],
    registers: [registry],
  });
  const unplaced = new Counter({
    name: "tidemark_extender_pods_without_node_total",
    help: "Questions that were answered with no node at all.",
    registers: [registry],
  });
  const notThere = new Counter({
    name: "tidemark_extender_pods_not_there_total",
    help: "Questions about a pod that was not there, or not as it was asked about; nothing was held for them.",
    registers: [registry],
  });
  registerNodeStates(registry, view, nowMs);
  registerTaken(registry, ledger);
  return {
    registry,
    answered: (verb, status, durationMs) => requests.observe({ verb, status }, durationMs / 1000),
    filtered: ({ fits, fitFailures }) => {
      const counts = new Map<FitFailureReason, number>();
      for (const { fitFailure } of fitFailures) counts.set(fitFailure.reason, (counts.get(fitFailure.reason) ?? 0) + 1);
      for (const [reason, count] of counts) refused.inc({ reason }, count);
      if (fits.length === 0) unplaced.inc();
    },
    notThere: () => notThere.inc(),
  };
}

const NODE_STATES = ["Reported", "NotReported", "AgentNotReady", "Cordoned"] as const;

function registerNodeStates(registry: Registry, view: ClusterView, nowMs: () => number): void {
  const gauge: Gauge<"state"> = new Gauge({
    name: "tidemark_extender_nodes",
    help: "Nodes by their capacity report: present, absent, or stale because their agent is not ready.",
    labelNames: ["state"],
    registers: [registry],
    collect: () => {
      view.refresh(nowMs());
      const counts = new Map<string, number>(NODE_STATES.map((state) => [state, 0]));
      for (const { facts } of view.nodes()) {
        const reports = isUnheard(facts, nowMs())
          ? "AgentNotReady"
          : facts.classes === undefined
            ? "NotReported"
            : "Reported";
        const state = facts.isCordoned ? "Cordoned" : reports;
        counts.set(state, (counts.get(state) ?? 0) + 1);
      }
      for (const [state, count] of counts) gauge.set({ state }, count);
    },
  });
}

function registerTaken(registry: Registry, ledger: Ledger): void {
  const gauge: Gauge<"kind"> = new Gauge({
    name: "tidemark_extender_ledger_entries",
    help:
      "What nodes do not show yet of volumes, extends and other drivers' attach slots (reservation), " +
      "pods that were answered but are not placed yet (hold), and nodes that are counted for (node).",
    labelNames: ["kind"],
    registers: [registry],
    collect: () => {
      const { reservations, holds, nodes } = ledger.count();
      gauge.set({ kind: "reservation" }, reservations);
      gauge.set({ kind: "hold" }, holds);
      gauge.set({ kind: "node" }, nodes);
    },
  });
}
