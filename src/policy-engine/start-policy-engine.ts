// The policy-engine's wiring: what is made of what, in which order it starts and stops.
import { createKubeClient } from "../platform/kube/client/http-client.ts";
import { connectionOf } from "../platform/kube/client/kube-config.ts";
import { createEventRecorder } from "../platform/kube/events/events.ts";
import { withTimeLimit } from "../platform/process/async/limited-wait.ts";
import { systemClock } from "../platform/process/clock.ts";
import { effectsOf } from "../platform/process/effects/effects.ts";
import type { Logger } from "../platform/process/log.ts";
import { type Page, startMetricsServer } from "../platform/process/metrics/metrics-server.ts";
import { secureMetrics } from "../platform/process/metrics/secured-metrics.ts";
import type { Stoppable } from "../platform/process/shutdown.ts";
import { createPolicyWebhook, type PolicyWebhook } from "./admission/policy-webhook.ts";
import { createLeadership } from "./apply/leadership.ts";
import type { PolicyEngineConfig } from "./config.ts";
import { explain } from "./decide/explain-decision.ts";
import { createDecisions } from "./engine/decisions.ts";
import type { Engine } from "./engine/engine.ts";
import { type Caches, createCaches } from "./gather/caches.ts";
import type { PolicyBook } from "./gather/policy-book.ts";
import { createEngineMetrics } from "./metrics.ts";
import { createSampleListener } from "./samples/sample-listener.ts";

/** A policy that is not compiled by then holds its volumes until it is. */
const POLICIES_WAIT_MS = 20_000;
const COMPONENT = "tidemark-policy-engine";

interface RunningPolicyEngine {
  readonly httpPort: number;
  /** Where agents send their samples. */
  readonly samplesAt: string;
  /** Undefined: the policy webhook is off. */
  readonly policyWebhookPort: number | undefined;
  /** In the order in which they were started; stop them in reverse. */
  readonly parts: readonly Stoppable[];
}

/** It leads, or waits for the lease, when this resolves. */
export async function startPolicyEngine(config: PolicyEngineConfig, log: Logger): Promise<RunningPolicyEngine> {
  const nowMs = () => systemClock.nowMs();
  const connection = await connectionOf(config.connection);
  const client = createKubeClient({
    connection,
    effects: effectsOf(config),
    log,
    userAgent: COMPONENT,
  });
  const events = createEventRecorder({ client, component: COMPONENT, nowMs, log });
  const caches = createCaches(client, log);
  const leadership = createLeadership(client, caches, config, log, () => {
    decisions.decideAll();
    samples.leading();
    webhook?.leading();
  });
  const metrics = createEngineMetrics(leadership.isLeader);
  const decisions = createDecisions({ client, events, caches, leadership, metrics, config, clock: systemClock, log });
  const samples = createSampleListener({ config, client, events, leadership, nowMs, log });
  const { registry } = metrics;
  const webhook = webhookOf({ config, client, events, caches, leadership, registry, clock: systemClock, log });

  let ready = false;
  caches.start();
  const http = await startMetricsServer({
    host: config.httpHost,
    port: config.httpPort,
    registry: metrics.registry,
    unhealthy: () => undefined,
    notReady: () => (ready ? undefined : "the first list from the API server is not complete"),
    page: createExplainPage(caches, decisions.engine, decisions.policies),
    secured: secureMetrics(config.metricsAuthentication, client, log),
  });
  await caches.synced;
  const samplesAt = await samples.serve(decisions.samples);
  const policyWebhookPort = await webhook?.start();
  decisions.start();
  ready = true;
  await withTimeLimit(decisions.policies.settled(), POLICIES_WAIT_MS, () => undefined);
  leadership.start();
  return {
    httpPort: http.port,
    samplesAt,
    policyWebhookPort,
    parts: [
      { name: "API server client", stop: () => client.close() },
      { name: "caches", stop: () => caches.stop() },
      { name: "HTTP server", stop: () => http.close() },
      { name: "events", stop: () => events.flush() },
      { name: "lease", stop: () => leadership.stop() },
      { name: "decisions", stop: () => decisions.stop() },
      { name: "streams of samples", stop: () => samples.close() },
      ...(webhook === undefined ? [] : [{ name: "policy webhook", stop: () => webhook.stop() }]),
    ],
  };
}

type WebhookParts = Omit<Parameters<typeof createPolicyWebhook>[0], "port" | "config"> & {
  readonly config: PolicyEngineConfig;
};

function webhookOf(parts: WebhookParts): PolicyWebhook | undefined {
  const port = parts.config.policyWebhookPort;
  return port === undefined ? undefined : createPolicyWebhook({ ...parts, port });
}

/** Answers /explain/NAMESPACE/CLAIM. */
function createExplainPage(caches: Caches, engine: Engine, policies: PolicyBook): Page {
  return (path) => {
    const [, page, namespace = "", name = ""] = path.split("/").map(decodeURIComponent);
    if (page !== "explain") return undefined;
    const [layout] = caches.layouts.store.byIndex("claim", `${namespace}/${name}`);
    const seen = layout === undefined ? undefined : engine.look(layout.metadata.name);
    if (seen === undefined)
      return { status: 404, body: { error: `no filesystem of claim ${namespace}/${name} is known` } };
    const { facts } = seen.gathered;
    const { policy, ceilings } = policies.forClaim(facts.claim);
    return { status: 200, body: explain(facts, policy, ceilings) };
  };
}
