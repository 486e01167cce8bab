// The metrics that every process has: Node.js' own, under names that Prometheus' conventions allow. A process adds its own to it.
import { collectDefaultMetrics, Registry } from "prom-client";

/** Gauges that prom-client names like counters: promtool refuses them. */
const MISNAMED_GAUGES = [
  "nodejs_active_handles_total",
  "nodejs_active_requests_total",
  "nodejs_active_resources_total",
];

export function createMetricsRegistry(): Registry {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry });
  for (const name of MISNAMED_GAUGES) registry.removeSingleMetric(name);
  return registry;
}
