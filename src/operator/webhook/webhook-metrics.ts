// How the pod webhook's requests ended, and how many pods wait that it has missed. No pod's name is among the labels.
import { Gauge, Histogram, type Registry } from "prom-client";
import type { AdmissionResult } from "./admit-pod.ts";

export interface WebhookMetrics {
  answered(result: AdmissionResult, durationMs: number): void;
}

const DURATION_BUCKETS_SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5];

/** `missed` is asked when Prometheus asks. */
export function registerPodWebhook(registry: Registry, missed: () => number): WebhookMetrics {
  const answers = new Histogram({
    name: "tidemark_operator_pod_webhook_duration_seconds",
    help: "Requests to the pod webhook, by what became of the pod.",
    labelNames: ["result"],
    buckets: DURATION_BUCKETS_SECONDS,
    registers: [registry],
  });
  const waiting: Gauge = new Gauge({
    name: "tidemark_operator_pods_placement_missed",
    help: "Pods that wait for a node and were made past the pod webhook; 0 where this replica does not lead.",
    registers: [registry],
    collect: () => waiting.set(missed()),
  });
  return { answered: (result, durationMs) => answers.observe({ result }, durationMs / 1000) };
}
