// What makes the engine decide: a sample (fast path), a changed object, and the clock (slow path). Everything ends in Engine.evaluate.
import type { KubeClient } from "../../kube/client/client.ts";
import type { EventRecorder } from "../../kube/events/events.ts";
import { type Clock, instantOf } from "../../process/clock.ts";
import type { GrpcService } from "../../process/grpc.ts";
import type { Logger } from "../../process/log.ts";
import type { Leadership } from "../apply/leadership.ts";
import type { PolicyEngineConfig } from "../config.ts";
import type { Caches } from "../gather/caches.ts";
import { createNamespacePromises } from "../gather/namespace-promises.ts";
import { createPolicyBook, type LivePolicyBook } from "../gather/policy-book.ts";
import { createPrometheusSource } from "../gather/prometheus.ts";
import { createVolumeRegistry, type VolumeRegistry } from "../gather/volume-registry.ts";
import type { EngineMetrics } from "../metrics.ts";
import { createPolicyReports } from "../report/policy-reports.ts";
import { createNodeClocks, type NodeClocks } from "../samples/node-clocks.ts";
import { createSampleIntake } from "../samples/sample-intake.ts";
import { admissionFor } from "../samples/sample-listener.ts";
import { createSampleServer, type SampleServerEvents } from "../samples/sample-server.ts";
import { createEngine, type Engine } from "./engine.ts";
import { followChanges } from "./follow-objects.ts";
import { createRateLimit } from "./rate-limit.ts";
import { createSlowPath } from "./slow-path.ts";

/** The engine's own limit, beyond any policy. */
const CHANGES_PER_SECOND = 50;

export interface DecisionsOptions {
  readonly client: KubeClient;
  readonly events: EventRecorder;
  readonly caches: Caches;
  readonly leadership: Leadership;
  readonly metrics: EngineMetrics;
  readonly config: PolicyEngineConfig;
  readonly clock: Clock;
  readonly log: Logger;
}

export interface Decisions {
  readonly engine: Engine;
  readonly policies: LivePolicyBook;
  readonly samples: GrpcService;
  decideAll(): void;
  start(): void;
  stop(): Promise<void>;
}

export function createDecisions(options: DecisionsOptions): Decisions {
  const { client, events, caches, leadership, metrics, config, clock, log } = options;
  const { nowMs } = clock;
  const nodeClocks = createNodeClocks(events, leadership.isLeader, log);
  const registry = createVolumeRegistry();
  const handles = (): Iterable<string> => caches.layouts.store.list().map(({ metadata }) => metadata.name);
  const decideAll = (): void => {
    void engine.evaluateAll(handles());
    reports.soon();
  };
  const samples = createSampleServer(
    streamEvents(options, registry, nodeClocks, (handle) => engine.evaluate(handle)),
    admissionFor(config, client, nowMs),
    log,
  );
  const policies = createPolicyBook(caches, clock.monotonicMs, () => decideAll());
  const slowPath = createSlowPath({
    prometheus: config.prometheusUrl === undefined ? undefined : createPrometheusSource(config.prometheusUrl),
    registry,
    handlesOf: (claim) => caches.layouts.store.byIndex("claim", claim).map(({ metadata }) => metadata.name),
    evaluateAll: () => engine.evaluateAll(handles()),
    intervalMs: config.evaluationIntervalMs,
    scrapeIntervalMs: config.scrapeIntervalMs,
    clock,
    log,
    onCycle: (durationMs, outcome) => metrics.cycles.observe({ outcome }, durationMs / 1000),
  });
  const engine = createEngine({
    client,
    events,
    registry,
    world: { caches, promises: createNamespacePromises(caches, clock), metricsStale: slowPath.metricsStale },
    policies,
    samples,
    metrics,
    clusterRate: createRateLimit(CHANGES_PER_SECOND),
    epoch: () => leadership.epoch(),
    clock,
    log,
  });
  const reports = createPolicyReports(client, events, caches, policies, leadership.isLeader, nowMs, log);
  followChanges({ caches, registry, engine, clock, onCountChanged: reports.soon, onEpoch: leadership.agentKnows });
  return {
    engine,
    policies,
    samples,
    decideAll,
    start: () => slowPath.start(),
    stop: async () => {
      policies.stop();
      await slowPath.stop();
      await reports.stop();
      await engine.settled();
    },
  };
}

/** The fast path: `evaluate` is called for each volume of which something new was sampled. */
function streamEvents(
  { caches, leadership, clock, log }: DecisionsOptions,
  registry: VolumeRegistry,
  nodeClocks: NodeClocks,
  evaluate: (handle: string) => void,
): SampleServerEvents {
  // No node speaks for another node's volume, or for one that there is not.
  const intake = createSampleIntake((handle) => caches.layouts.store.get(handle)?.spec.nodeName, log);
  return {
    onHello: (nodeName, highestEpoch) => {
      intake.forget(nodeName);
      // What an agent was told is gone with its process, and what it was told while it was away never came.
      for (const { metadata, spec, status } of caches.layouts.store.list())
        if ((status?.nodeName ?? spec.nodeName) === nodeName) registry.get(metadata.name).guided = undefined;
      leadership.agentKnows(highestEpoch);
    },
    onSamples: (nodeName, batch) => {
      // The newest: a new stream begins with what may have been read long ago.
      const stampMs = batch.reduce((newest, { sampledAtMs }) => Math.max(newest, sampledAtMs), 0);
      if (batch.length > 0) nodeClocks.heard(nodeName, stampMs, instantOf(clock));
      for (const sample of intake.take(nodeName, batch, clock.monotonicMs())) {
        if (registry.sampled(nodeName, sample, instantOf(clock))) evaluate(sample.volumeHandle);
      }
    },
    onGone: (nodeName) => {
      intake.forget(nodeName);
      log.info({ nodeName }, "an agent's stream has ended");
    },
  };
}
