// The operator's wiring: adapters → caches → CSI services on every replica, and the volumes' reconciler on the one that leads.
import { type Driver, LOCAL, SPAN } from "../contracts/csi/driver.ts";
import { createKubeClient } from "../platform/kube/client/http-client.ts";
import { connectionOf } from "../platform/kube/client/kube-config.ts";
import { createLeaderElection, type LeaderElection } from "../platform/kube/election/lease.ts";
import { createEventRecorder } from "../platform/kube/events/events.ts";
import { createKeyedQueue } from "../platform/process/async/keyed-queue.ts";
import { systemClock } from "../platform/process/clock.ts";
import { effectsOf } from "../platform/process/effects/effects.ts";
import { serveOnSocket } from "../platform/process/grpc.ts";
import type { Logger } from "../platform/process/log.ts";
import { startMetricsServer } from "../platform/process/metrics/metrics-server.ts";
import { secureMetrics } from "../platform/process/metrics/secured-metrics.ts";
import type { Stoppable } from "../platform/process/shutdown.ts";
import { createMemberHome } from "./apply/member-home.ts";
import { createLayoutWriter } from "./apply/volume-objects.ts";
import type { OperatorConfig } from "./config.ts";
import { createCsiServices } from "./csi/csi-services.ts";
import { createLayoutWatch, createVolumeChanges } from "./gather/cache-waits.ts";
import { createLeaderDuties, type DutyParts, type NamedDuty } from "./leader-duties.ts";
import { createOperatorMetrics, registerLostNodeVolumes, registerMemberBytes } from "./metrics.ts";
import { createOperatorCaches } from "./operator-caches.ts";
import { createPodWebhook, type PodWebhook } from "./webhook/pod-webhook.ts";

/** Time until a Service no longer leads to this replica. */
const DRAIN_MS = 2000;
const COMPONENT = "tidemark-operator";

export interface RunningOperator {
  readonly httpPort: number;
  /** Undefined: there is none. */
  readonly podWebhookPort: number | undefined;
  /** In the order in which they were started; stop them in reverse. */
  readonly parts: readonly Stoppable[];
}

export async function startOperator(config: OperatorConfig, log: Logger): Promise<RunningOperator> {
  const clock = systemClock;
  const client = createKubeClient({
    connection: await connectionOf(config.connection),
    effects: effectsOf(config),
    log,
    userAgent: COMPONENT,
  });
  const metrics = createOperatorMetrics();
  const events = createEventRecorder({ client, component: COMPONENT, nowMs: clock.nowMs, log });
  const caches = createOperatorCaches(client, config.leaseNamespace, log);
  registerMemberBytes(metrics.registry, caches.volumes);
  registerLostNodeVolumes(metrics.registry, caches.volumes, caches.claims.claims);
  let ready = false;
  void caches.synced.then(() => {
    ready = true;
  });
  const parts = {
    config,
    client,
    caches,
    layouts: createLayoutWriter(client),
    // By namespace: what one decision has taken of a quota, the next one sees. The reconciler runs in this process alone.
    turns: createKeyedQueue(),
    home: createMemberHome(client, config, log),
    events,
    metrics,
    clock,
  };
  const serveCsi = createCsiServing(parts, () => ready, log);
  const duties = createLeaderDuties(parts, log);
  const webhook = webhookOf(parts, log);
  if (webhook !== undefined) duties.push({ name: "duties of the pod webhook", duty: webhook.duty });
  const election = elect(config, client, duties, log);

  caches.start();
  const csi = await serveCsi(LOCAL, config.csiSocket);
  const spanCsi = config.spanCsiSocket === undefined ? undefined : await serveCsi(SPAN, config.spanCsiSocket);
  const podWebhookPort = await webhook?.start();
  election.start();
  const notReady = (): string | undefined =>
    ready ? webhook?.notReady() : "the first list from the API server is not complete";
  const http = await serveMetrics(parts, notReady, log);
  return {
    httpPort: http.port,
    podWebhookPort,
    parts: [
      { name: "API server client", stop: () => client.close() },
      ...caches.parts,
      { name: "events", stop: () => events.flush() },
      ...(webhook === undefined ? [] : [{ name: "pod webhook", stop: () => webhook.stop() }]),
      { name: "HTTP server", stop: () => http.close() },
      { name: "lease", stop: () => election.stop() },
      ...duties.map(({ name, duty }) => ({ name, stop: () => duty.end() })),
      { name: "CSI services", stop: () => csi.close() },
      ...(spanCsi === undefined ? [] : [{ name: "CSI services of span", stop: () => spanCsi.close() }]),
    ],
  };
}

/** How one of our drivers is served on its socket. */
function createCsiServing(
  { config, client, caches, layouts, turns, home, events, metrics, clock }: DutyParts,
  isReady: () => boolean,
  log: Logger,
): (driver: Driver, socket: string) => ReturnType<typeof serveOnSocket> {
  const serving = { log, answered: metrics.csiCall, refusalOf: () => undefined };
  const ofBoth = {
    serving,
    clock,
    client,
    caches: caches.volumes,
    events,
    layouts,
    watch: createLayoutWatch(client, caches.volumes.layouts),
    changes: createVolumeChanges(caches.volumes),
    turns,
    home,
    budgetBytes: config.namespaceBudgetBytes,
    isReady,
  };
  return (driver, socket) => serveOnSocket(socket, createCsiServices({ ...ofBoth, driver }));
}

function webhookOf({ config, client, caches, events, metrics, clock }: DutyParts, log: Logger): PodWebhook | undefined {
  if (config.podWebhook === undefined) return undefined;
  return createPodWebhook({
    config: { ...config, ...config.podWebhook },
    client,
    caches: caches.claims,
    events,
    metrics,
    clock,
    drainMs: DRAIN_MS,
    log,
  });
}

function serveMetrics(
  { config, client, metrics }: DutyParts,
  notReady: () => string | undefined,
  log: Logger,
): ReturnType<typeof startMetricsServer> {
  return startMetricsServer({
    host: config.httpHost,
    port: config.httpPort,
    registry: metrics.registry,
    unhealthy: () => undefined,
    notReady,
    secured: secureMetrics(config.metricsAuthentication, client, log),
  });
}

function elect(
  config: OperatorConfig,
  client: Parameters<typeof createLeaderElection>[0]["client"],
  duties: readonly NamedDuty[],
  log: Logger,
): LeaderElection {
  return createLeaderElection({
    client,
    log,
    lease: { namespace: config.leaseNamespace, name: COMPONENT },
    identity: config.identity,
    // The operator writes under the engine's epochs and has no epoch of its own: resourceVersions guard what it writes.
    highestKnownEpoch: () => Promise.resolve(0),
    onAcquired: () => {
      for (const { duty } of duties) duty.begin();
    },
    onLost: () => {
      for (const { duty } of duties) void duty.end();
    },
  });
}
