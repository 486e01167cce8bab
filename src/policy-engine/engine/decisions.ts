// What makes the engine decide: a sample (fast path), a changed object, and the clock (slow path). Everything ends in Engine.evaluate.

import type { Filesystem } from "../../contracts/kinds/filesystem.ts";
import type { FilesystemLayout } from "../../contracts/kinds/filesystem-layout.ts";
import { objectKey } from "../../contracts/kubernetes/object.ts";
import type { PersistentVolumeClaim } from "../../contracts/kubernetes/resources.ts";
import { claimResizeOf } from "../../contracts/ordinary-claim.ts";
import type { KubeClient } from "../../platform/kube/client/client.ts";
import { createOwnWrites } from "../../platform/kube/client/writes.ts";
import type { EventRecorder } from "../../platform/kube/events/events.ts";
import { type Clock, type Instant, instantOf } from "../../platform/process/clock.ts";
import type { GrpcService } from "../../platform/process/grpc.ts";
import type { Logger } from "../../platform/process/log.ts";
import type { Leadership } from "../apply/leadership.ts";
import type { PolicyEngineConfig } from "../config.ts";
import type { Caches } from "../gather/caches.ts";
import { createNamespacePromises } from "../gather/namespace-promises.ts";
import { createPolicyBook, type LivePolicyBook } from "../gather/policy-book.ts";
import { createPrometheusSource } from "../gather/prometheus/prometheus.ts";
import { connectToPrometheus } from "../gather/prometheus/prometheus-server.ts";
import { type ChangeRates, createChangeRates } from "../gather/rates/change-rates.ts";
import { createVolumeRegistry, type VolumeRegistry, type VolumeState } from "../gather/volume-registry.ts";
import type { EngineMetrics } from "../metrics.ts";
import { createPolicyReports } from "../report/policy-reports.ts";
import { createRuleErrors } from "../report/rule-errors.ts";
import { createNodeClocks, type NodeClocks } from "../samples/node-clocks.ts";
import { admissionFor } from "../samples/sample-listener.ts";
import { createSampleIntake, createSampleServer, type SampleServerEvents } from "../samples/sample-server.ts";
import { createEngine, type Engine } from "./engine.ts";
import { followApprovals } from "./follow-approvals.ts";
import { createRateLimit } from "./own-limits.ts";
import { createSlowPath, type SlowPath } from "./slow-path.ts";

/** The engine's own limit, beyond any policy. */
const CHANGES_PER_SECOND = 50;

interface DecisionsOptions {
  readonly client: KubeClient;
  readonly events: EventRecorder;
  readonly caches: Caches;
  readonly leadership: Leadership;
  readonly metrics: EngineMetrics;
  readonly config: PolicyEngineConfig;
  readonly clock: Clock;
  readonly log: Logger;
}

interface Decisions {
  readonly engine: Engine;
  readonly policies: LivePolicyBook;
  readonly samples: GrpcService;
  decideAll(): void;
  start(): void;
  stop(): Promise<void>;
}

export function createDecisions(options: DecisionsOptions): Decisions {
  const { client, events, caches, leadership, metrics, config, clock, log } = options;
  const { evaluationIntervalMs } = config;
  const nodeClocks = createNodeClocks(events, leadership.isLeader, log);
  const rates = createChangeRates(caches, clock);
  const registry = createVolumeRegistry(rates.ended);
  const handles = (): Iterable<string> => caches.layouts.store.list().map(({ metadata }) => metadata.name);
  const evaluateAll = createRounds(() => engine.evaluateAll(handles()));
  const decideAll = (): void => {
    void evaluateAll();
    reports.soon();
    approving.soon();
  };
  const samples = createSampleServer(
    streamEvents(options, { registry, rates, nodeClocks }, (handle) => engine.evaluate(handle)),
    admissionFor(config, client, clock.nowMs),
    log,
  );
  const ruleErrors = createRuleErrors(() => reports.rulesFailed());
  const promises = createNamespacePromises(caches, clock);
  const policies = createPolicyBook(caches, clock.monotonicMs, () => decideAll());
  const approving = followApprovals(options, (handles) => engine.evaluateAll(handles));
  const slowPath = slowPathOf(options, registry, evaluateAll);
  const { metricsStale } = slowPath;
  const engine = createEngine({
    ownGrants: createOwnWrites(clock),
    client,
    events,
    registry,
    world: { caches, promises, rates, approvals: approving.book, evaluationIntervalMs, metricsStale },
    policies,
    onDecided: approving.decided,
    onWritten: approving.written,
    samples,
    ruleErrors,
    metrics,
    clusterRate: createRateLimit(CHANGES_PER_SECOND),
    epoch: () => leadership.epoch(),
    clock,
    log,
  });
  const { isLeader } = leadership;
  const reports = createPolicyReports({ client, events, caches, policies, ruleErrors, isLeader, clock, log });
  caches.layouts.subscribe({ deleted: ({ metadata }) => ruleErrors.forget(metadata.name) });
  followChanges({ caches, registry, engine, leadership, clock, onCountChanged: reports.soon });
  return {
    engine,
    policies,
    samples,
    decideAll,
    start: () => slowPath.start(),
    stop: async () => {
      policies.stop();
      await slowPath.stop();
      await Promise.all([reports.stop(), approving.stop()]);
      await engine.settled();
    },
  };
}

/** One round at a time. Asked for while one goes on, all get the one after it: that begins with what they have changed. */
function createRounds(round: () => Promise<void>): () => Promise<void> {
  let running: Promise<void> | undefined;
  let next: Promise<void> | undefined;
  const begin = (): Promise<void> => {
    next = undefined;
    running = round().finally(() => {
      running = undefined;
    });
    return running;
  };
  return () => (running === undefined ? begin() : (next ??= running.then(begin, begin)));
}

/** What the slow path asks, how often, and of which volumes. */
function slowPathOf(
  { config, caches, clock, log, metrics }: DecisionsOptions,
  registry: VolumeRegistry,
  evaluateAll: () => Promise<void>,
): SlowPath {
  const { prometheus, scrapeIntervalMs, evaluationIntervalMs } = config;
  const { store } = caches.layouts;
  return createSlowPath({
    prometheus: prometheus && createPrometheusSource(connectToPrometheus(prometheus), scrapeIntervalMs, clock),
    scrapeIntervalMs,
    intervalMs: evaluationIntervalMs,
    claims: () => store.list().flatMap(({ spec }) => (spec.claimRef === undefined ? [] : [objectKey(spec.claimRef)])),
    handlesOf: (claim) => store.byIndex("claim", claim).map(({ metadata }) => metadata.name),
    registry,
    evaluateAll,
    clock,
    log,
    onCycle: (durationMs, outcome) => metrics.cycles.observe({ outcome }, durationMs / 1000),
  });
}

/** What samples go into. */
interface Heard {
  readonly registry: VolumeRegistry;
  readonly rates: ChangeRates;
  readonly nodeClocks: NodeClocks;
}

/** The fast path: `evaluate` is called for each volume of which something new was sampled. */
function streamEvents(
  { caches, leadership, clock, log }: DecisionsOptions,
  { registry, rates, nodeClocks }: Heard,
  evaluate: (handle: string) => void,
): SampleServerEvents {
  // No node speaks for another node's volume, or for one that there is not.
  const intake = createSampleIntake((handle) => caches.layouts.store.get(handle)?.spec.nodeName, log);
  return {
    onHello: (nodeName, highestEpoch) => {
      intake.forget(nodeName);
      // An agent's guidance is gone with its process, and guidance that was sent while it was away never arrived.
      for (const { metadata, spec, status } of caches.layouts.store.list())
        if ((status?.nodeName ?? spec.nodeName) === nodeName) guideAgain(registry.get(metadata.name));
      leadership.agentKnows(highestEpoch);
    },
    onSamples: (nodeName, batch) => {
      // The newest: a new stream begins with readings that may be old.
      const stampMs = batch.reduce((newest, { sampledAtMs }) => Math.max(newest, sampledAtMs), 0);
      if (batch.length > 0) nodeClocks.heard(nodeName, stampMs, instantOf(clock));
      for (const sample of intake.take(nodeName, batch, clock.monotonicMs())) {
        if (sample.operationInProgress) rates.goesOn(sample.volumeHandle);
        if (registry.sampled(nodeName, sample, instantOf(clock))) evaluate(sample.volumeHandle);
      }
    },
    onGone: (nodeName) => {
      intake.forget(nodeName);
      log.info({ nodeName }, "an agent's stream has ended");
    },
  };
}

function guideAgain(state: VolumeState): void {
  state.guided = undefined;
  state.standing = undefined;
}

// What a changed object means to the engine: an operation that ends, a size that changes, or a claim that is relabelled asks for that one
// volume. It decides nothing.

interface ChangesFollowed {
  readonly caches: Pick<Caches, "layouts" | "filesystems" | "claims">;
  readonly registry: VolumeRegistry;
  readonly engine: Pick<Engine, "evaluate">;
  readonly leadership: Pick<Leadership, "isLeader" | "agentKnows">;
  readonly clock: Clock;
  readonly onCountChanged: () => void;
}

export function followChanges(followed: ChangesFollowed): void {
  const { caches, registry } = followed;
  followLayouts(followed);
  const recall = ({ status }: Filesystem): void => {
    if (status?.volumeHandle !== undefined && status.scaling !== undefined)
      registry.recall(status.volumeHandle, status.scaling, instantOf(followed.clock));
  };
  caches.filesystems.subscribe({
    added: recall,
    // What the leader reports, which this replica would otherwise erase with its own first report.
    updated: (filesystem) => {
      if (!followed.leadership.isLeader()) recall(filesystem);
    },
  });
  followClaims(followed);
}

function followLayouts({ caches, registry, engine, leadership, clock, onCountChanged }: ChangesFollowed): void {
  const seen = (layout: FilesystemLayout): void => {
    leadership.agentKnows(layout.status?.epoch ?? 0);
    registry.layoutSeen(layout, instantOf(clock));
    const claim = layout.spec.claimRef && caches.claims.store.get(objectKey(layout.spec.claimRef));
    if (claim !== undefined) claimSeen(registry, claim, layout, instantOf(clock));
  };
  caches.layouts.subscribe({
    added: (layout) => {
      seen(layout);
      onCountChanged();
    },
    updated: (layout) => {
      seen(layout);
      engine.evaluate(layout.metadata.name);
    },
    deleted: (layout) => {
      registry.forget(layout.metadata.name);
      onCountChanged();
    },
  });
}

// A claim that is heard of only after its layout is news as well: growth shows against what it had before.
function followClaims({ caches, registry, engine, clock }: ChangesFollowed): void {
  const seen = (claim: PersistentVolumeClaim): void => {
    for (const layout of caches.layouts.store.byIndex("claim", objectKey(claim.metadata))) {
      claimSeen(registry, claim, layout, instantOf(clock));
      engine.evaluate(layout.metadata.name);
    }
  };
  caches.claims.subscribe({ added: seen, updated: seen });
}

function claimSeen(
  registry: VolumeRegistry,
  claim: PersistentVolumeClaim,
  { metadata, spec }: FilesystemLayout,
  at: Instant,
): void {
  const isIts = spec.backend === "claim" && spec.claimRef?.uid === claim.metadata.uid;
  const capacityBytes = isIts ? claimResizeOf(claim)?.capacityBytes : undefined;
  if (capacityBytes !== undefined) registry.claimSeen(metadata.name, capacityBytes, at);
}
