// The extender's wiring: what is made of what, in which order it starts and stops.
import { setTimeout as sleep } from "node:timers/promises";
import { createKubeClient } from "../platform/kube/client/http-client.ts";
import { connectionOf } from "../platform/kube/client/kube-config.ts";
import { systemClock } from "../platform/process/clock.ts";
import { effectsOf } from "../platform/process/effects/effects.ts";
import type { Logger } from "../platform/process/log.ts";
import { startMetricsServer } from "../platform/process/metrics/metrics-server.ts";
import { secureMetrics } from "../platform/process/metrics/secured-metrics.ts";
import type { Stoppable } from "../platform/process/shutdown.ts";
import { createLedger } from "./apply/ledger.ts";
import type { ExtenderConfig } from "./config.ts";
import { createAskedPods } from "./gather/asked-pods.ts";
import { createCaches } from "./gather/caches.ts";
import { createClusterView } from "./gather/cluster-view.ts";
import { createExtenderMetrics } from "./metrics.ts";
import { createPlacement } from "./place-pods.ts";
import { createExtenderCertificate, startExtenderServer } from "./report/extender-server.ts";

/** What it started, in this order; stop it in reverse. The extender becomes ready later, when its caches are filled. */
export async function startExtender(config: ExtenderConfig, log: Logger): Promise<Stoppable[]> {
  const nowMs = (): number => systemClock.nowMs();
  const connection = await connectionOf(config.connection);
  const client = createKubeClient({ connection, effects: effectsOf(config), log, userAgent: "tidemark-extender" });
  const caches = createCaches(client, log);
  const ledger = createLedger(config.holdLimitMs);
  const view = createClusterView(caches.stores, ledger, nowMs);
  const pods = createAskedPods(caches.stores.pods);
  const metrics = createExtenderMetrics(view, ledger, nowMs);
  let waitsFor: string | undefined = "the first list from the API server is not complete";
  const notReady = (): string | undefined =>
    waitsFor ?? (config.tls === "Off" || certificate.isShown() ? undefined : "its certificate is not made yet");
  // Whatever becomes of the port of questions, kubelet and Prometheus are answered.
  const http = await startMetricsServer({
    host: config.httpHost,
    port: config.httpPort,
    registry: metrics.registry,
    unhealthy: () => undefined,
    notReady,
    secured: secureMetrics(config.metricsAuthentication, client, log),
  });
  const questions = await startExtenderServer({
    host: config.httpHost,
    port: config.extenderPort,
    tls: config.tls === "SelfMade",
    placement: createPlacement(view, ledger, config.placement),
    pods,
    metrics,
    clock: systemClock,
    notReady,
    log,
  });
  const certificate = createExtenderCertificate(client, config.namespace, questions.replace, log);
  if (config.tls === "SelfMade") certificate.start();
  const started = caches.start(view, pods).then(async () => {
    view.refresh(nowMs());
    waitsFor = "what another replica has answered is still to be seen";
    await sleep(config.startDelayMs, undefined, { ref: false });
    waitsFor = undefined;
    log.info({ httpPort: http.port, extenderPort: questions.port }, "serving");
  });
  started.catch((err: unknown) => log.error({ err }, "the caches are not filled"));

  return [
    { name: "API server client", stop: () => client.close() },
    { name: "caches", stop: () => caches.stop() },
    { name: "certificate", stop: () => certificate.stop() },
    { name: "questions", stop: () => questions.close() },
    { name: "HTTP server", stop: () => http.close() },
  ];
}
