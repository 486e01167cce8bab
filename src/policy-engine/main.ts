// The policy-engine's wiring: what is made of what, in which order it starts and stops.

import { createKubeClient } from "../kube/client/http-client.ts";
import { connectionOf } from "../kube/client/kube-config.ts";
import { createEventRecorder } from "../kube/events/events.ts";
import { pause } from "../kube/queue/pause.ts";
import { systemClock } from "../process/clock.ts";
import { effectsOf } from "../process/fault-effects.ts";
import { createLogger } from "../process/log.ts";
import { startMetricsServer } from "../process/metrics-server.ts";
import { secureMetrics } from "../process/secured-metrics.ts";
import { stopAll, untilSignal } from "../process/shutdown.ts";
import { createLeadership } from "./apply/leadership.ts";
import { readConfig } from "./config.ts";
import { createDecisions } from "./engine/decisions.ts";
import { createCaches } from "./gather/caches.ts";
import { createEngineMetrics } from "./metrics.ts";
import { createExplainPage } from "./report/explain-page.ts";
import { createSampleListener } from "./samples/sample-listener.ts";

/** A policy that is not compiled by then holds its volumes until it is. */
const POLICIES_WAIT_MS = 20_000;
const COMPONENT = "tidemark-policy-engine";

export async function runPolicyEngine(args: readonly string[]): Promise<void> {
  const config = readConfig(args);
  const log = createLogger("policy-engine", config.logLevel);
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
  });
  const metrics = createEngineMetrics(leadership.isLeader);
  const decisions = createDecisions({ client, events, caches, leadership, metrics, config, clock: systemClock, log });
  const samples = createSampleListener({ config, client, events, leadership, nowMs, log });

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
  decisions.start();
  ready = true;
  await Promise.race([decisions.policies.settled(), pause(POLICIES_WAIT_MS, new AbortController().signal)]);
  leadership.start();
  log.info({ httpPort: http.port, samplesAt }, "serving");

  await untilSignal();
  await stopAll(
    [
      { name: "API server client", stop: () => client.close() },
      { name: "caches", stop: () => caches.stop() },
      { name: "HTTP server", stop: () => http.close() },
      { name: "events", stop: () => events.flush() },
      { name: "lease", stop: () => leadership.stop() },
      { name: "decisions", stop: () => decisions.stop() },
      { name: "streams of samples", stop: () => samples.close() },
    ],
    log,
  );
}
