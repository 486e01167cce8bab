// The operator's wiring: adapters → caches → CSI services on every replica, and the volumes' reconciler on the one that leads.
import { type Driver, LOCAL, SPAN } from "../csi/driver.ts";
import { createEventRecorder } from "../kube/events.ts";
import { createKubeClient } from "../kube/http-client.ts";
import { connectionOf } from "../kube/kube-config.ts";
import { createLeaderElection, type LeaderElection } from "../kube/lease.ts";
import { systemClock } from "../process/clock.ts";
import { effectsOf } from "../process/fault-effects.ts";
import { serveOnSocket } from "../process/grpc.ts";
import type { Logger } from "../process/log.ts";
import { startMetricsServer } from "../process/metrics-server.ts";
import type { Stoppable } from "../process/shutdown.ts";
import { createCapacityCaches } from "./capacity/capacity-caches.ts";
import { createCapacityLoop } from "./capacity/capacity-loop.ts";
import { createPendingClaims } from "./capacity/pending-claims.ts";
import { createClaimCaches } from "./claim/claim-caches.ts";
import { createClaimLoop } from "./claim/claim-loop.ts";
import { createOptIn } from "./claim/opt-in.ts";
import type { OperatorConfig } from "./config.ts";
import { consolidationSight, createWaitingPods } from "./consolidation/consolidation-sight.ts";
import { createConsolidations } from "./consolidation/consolidations.ts";
import { createCsiServices } from "./csi/csi-services.ts";
import type { Duty } from "./led-queue.ts";
import { createGuardKeeper } from "./member/guard-keeper.ts";
import { registerMemberBytes } from "./member/member-bytes.ts";
import { createPace } from "./member/pace.ts";
import { createTurns } from "./member/turns.ts";
import { createOperatorMetrics } from "./metrics.ts";
import { registerLostNodeVolumes } from "./node-loss/lost-node-volumes.ts";
import { createNodeLossLoop } from "./node-loss/node-loss-loop.ts";
import { createLayoutWatch } from "./volume/layout-watch.ts";
import { createLayoutWriter } from "./volume/layout-writer.ts";
import { createVolumeCaches } from "./volume/volume-caches.ts";
import { createVolumeChanges } from "./volume/volume-changes.ts";
import { createVolumeLoop } from "./volume/volume-loop.ts";
import { createPodWebhook } from "./webhook/pod-webhook.ts";

/** Between two attempts of a provisioner that has no room on a member's node. */
const RESELECTION_INTERVAL_MS = 30_000;
/** A cache shows what was made well before. */
const MAKING_INTERVAL_MS = 1000;
/** What it takes until a Service does not lead here any more. */
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
  const caches = createVolumeCaches(client, log);
  registerMemberBytes(metrics.registry, caches);
  const layouts = createLayoutWriter(client);
  const watch = createLayoutWatch(client, caches.layouts);
  const reselection = createPace(clock, RESELECTION_INTERVAL_MS);
  const making = createPace(clock, MAKING_INTERVAL_MS);
  const changes = createVolumeChanges(caches);
  const turns = createTurns();
  const budgetBytes = config.namespaceBudgetBytes;
  const claimCaches = createClaimCaches(client, caches, log);
  const optIn = createOptIn(claimCaches);
  const claimLoop = createClaimLoop({ client, caches: claimCaches, optIn, events, clock }, metrics, log);
  const guard = config.userName === undefined ? undefined : createGuardKeeper(client, caches, config.userName, log);
  const capacityCaches = createCapacityCaches(client, claimCaches.storageClasses, config.leaseNamespace, log);
  const waiting = createWaitingPods(client, log);
  const consolidations = createConsolidations(
    { ...consolidationSight({ ...caches, ...claimCaches }, capacityCaches), pods: waiting, events, metrics, clock },
    Promise.all([claimCaches.synced, capacityCaches.synced, waiting.synced]).then(() => undefined),
    log,
  );
  const loop = createVolumeLoop(
    { client, caches, layouts, events, metrics, clock, reselection, making, turns, budgetBytes, consolidations },
    log,
  );
  consolidations.onChange(loop.add);
  const capacities = createCapacityLoop(client, capacityCaches, config.leaseNamespace, log);
  const lossSynced = Promise.all([caches.synced, claimCaches.synced]).then(() => undefined);
  const { claims } = claimCaches;
  const settleMs = config.nodeLossDelayMs;
  const nodeLoss = createNodeLossLoop({ client, caches, claims, events, metrics, clock, settleMs }, lossSynced, log);
  registerLostNodeVolumes(metrics.registry, caches, claims);
  const pendingClaims = createPendingClaims(claims, capacityCaches, events, log);
  const webhook =
    config.podWebhook &&
    createPodWebhook({
      config: { ...config, ...config.podWebhook },
      client,
      caches: claimCaches,
      events,
      metrics,
      clock,
      drainMs: DRAIN_MS,
      log,
    });
  const duties = [loop, consolidations, claimLoop, capacities, pendingClaims, nodeLoss];
  if (guard !== undefined) duties.push(guard);
  if (webhook !== undefined) duties.push(webhook.duty);
  const election = elect(config, client, duties, log);

  let ready = false;
  void Promise.all([caches.synced, claimCaches.synced, capacityCaches.synced]).then(() => {
    ready = true;
  });
  caches.start();
  claimCaches.start();
  capacityCaches.start();
  waiting.start();
  const serving = { log, answered: metrics.csiCall, refusalOf: () => undefined };
  const isReady = (): boolean => ready;
  const serve = (driver: Driver, socket: string): ReturnType<typeof serveOnSocket> =>
    serveOnSocket(
      socket,
      createCsiServices({
        serving,
        driver,
        clock,
        client,
        caches,
        events,
        layouts,
        watch,
        changes,
        turns,
        budgetBytes,
        isReady,
      }),
    );
  const csi = await serve(LOCAL, config.csiSocket);
  const spanCsi = config.spanCsiSocket === undefined ? undefined : await serve(SPAN, config.spanCsiSocket);
  const podWebhookPort = await webhook?.start();
  election.start();
  const http = await startMetricsServer({
    host: config.httpHost,
    port: config.httpPort,
    registry: metrics.registry,
    unhealthy: () => undefined,
    notReady: () => (ready ? webhook?.notReady() : "the first list from the API server is not complete"),
  });
  const parts = [
    { name: "API server client", stop: () => client.close() },
    { name: "caches", stop: () => caches.stop() },
    { name: "caches of claims", stop: () => claimCaches.stop() },
    { name: "caches of capacities", stop: () => capacityCaches.stop() },
    { name: "cache of waiting pods", stop: () => waiting.stop() },
    { name: "events", stop: () => events.flush() },
    ...(webhook === undefined ? [] : [{ name: "pod webhook", stop: () => webhook.stop() }]),
    { name: "HTTP server", stop: () => http.close() },
    { name: "lease", stop: () => election.stop() },
    { name: "reconciler", stop: () => loop.end() },
    { name: "consolidations", stop: () => consolidations.end() },
    { name: "reconciler of claims", stop: () => claimLoop.end() },
    { name: "capacities", stop: () => capacities.end() },
    { name: "pending claims", stop: () => pendingClaims.end() },
    { name: "node loss", stop: () => nodeLoss.end() },
    ...(guard === undefined ? [] : [{ name: "guard of members", stop: () => guard.end() }]),
    ...(webhook === undefined ? [] : [{ name: "duties of the pod webhook", stop: () => webhook.duty.end() }]),
    { name: "CSI services", stop: () => csi.close() },
    ...(spanCsi === undefined ? [] : [{ name: "CSI services of span", stop: () => spanCsi.close() }]),
  ];
  return { httpPort: http.port, podWebhookPort, parts };
}

function elect(
  config: OperatorConfig,
  client: Parameters<typeof createLeaderElection>[0]["client"],
  duties: readonly Duty[],
  log: Logger,
): LeaderElection {
  return createLeaderElection({
    client,
    log,
    lease: { namespace: config.leaseNamespace, name: COMPONENT },
    identity: config.identity,
    // The operator writes under the engine's epochs and has none of its own: resourceVersions guard what it writes.
    highestKnownEpoch: () => Promise.resolve(0),
    onAcquired: () => {
      for (const duty of duties) duty.begin();
    },
    onLost: () => {
      for (const duty of duties) void duty.end();
    },
  });
}
