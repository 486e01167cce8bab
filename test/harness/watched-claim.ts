// One claim of another driver under the real engine, in memory: an API server that takes its targets or refuses them, caches that
// see what the test says, and a clock that the test turns.

import { Sample } from "../../src/contracts/gen/tidemark/samples/v1/samples.ts";
import type { Filesystem, SizeTarget } from "../../src/contracts/kinds/filesystem.ts";
import type { KubeObject } from "../../src/contracts/kubernetes/object.ts";
import { GIB } from "../../src/contracts/quantities/quantity.ts";
import { createOwnWrites } from "../../src/platform/kube/client/writes.ts";
import type { KubeError } from "../../src/platform/kube/kube-error.ts";
import { type Clock, instantOf } from "../../src/platform/process/clock.ts";
import { createEngine } from "../../src/policy-engine/engine/engine.ts";
import { createNamespacePromises } from "../../src/policy-engine/gather/namespace-promises.ts";
import { createChangeRates } from "../../src/policy-engine/gather/rates/change-rates.ts";
import { createVolumeRegistry } from "../../src/policy-engine/gather/volume-registry.ts";
import { type Ceilings, NO_CEILINGS } from "../../src/policy-engine/index.ts";
import type { EngineMetrics } from "../../src/policy-engine/metrics.ts";
import type { CompiledPolicy } from "../../src/policy-engine/policies/compiled-policy.ts";
import { NOW_MS } from "../builders/facts.ts";
import { anOrdinaryClaim } from "../builders/ordinary-claim.ts";
import { aPolicy } from "../builders/policy.ts";
import { engineCaches } from "../fakes/engine-caches.ts";
import { createRecordingLog } from "../fakes/recording-log.ts";
import { servedClient } from "../fakes/served-client.ts";

const NODE = "node-a";
const POLICY = aPolicy({
  claimBackend: "Enabled",
  limits: { max: "100Gi" },
  rules: [{ name: "extend-at-80", action: "Extend", when: "volume.usedRatio >= 0.8", targetUsed: "75%" }],
});

export type WatchedClaim = ReturnType<typeof watchClaim>;

/** 10 GiB, adopted, opted in. */
export function watchClaim(metrics: EngineMetrics, policy: CompiledPolicy = POLICY, ceilings: Ceilings = NO_CEILINGS) {
  const { handle, claim, layout, filesystem, storageClass } = anOrdinaryClaim();
  const caches = engineCaches();
  const targets: SizeTarget[] = [];
  let nowMs = NOW_MS;
  let nodeAheadMs = 0;
  const clock: Clock = { nowMs: () => nowMs, monotonicMs: () => nowMs };
  const rates = createChangeRates(caches, clock);
  const registry = createVolumeRegistry(rates.ended);
  let refusal: KubeError | undefined;
  let seen: Filesystem = filesystem;
  const apply = async (object: KubeObject & Partial<Pick<Filesystem, "spec" | "status">>): Promise<Filesystem> => {
    if (refusal !== undefined) throw refusal;
    if (object.spec?.target !== undefined) targets.push(object.spec.target);
    seen = { ...seen, spec: { ...seen.spec, ...object.spec }, ...(object.status && { status: object.status }) };
    caches.filesystems.put(seen);
    return seen;
  };
  const engine = createEngine({
    ownGrants: createOwnWrites(clock),
    client: servedClient({ apply: (_point, _resource, object) => apply(object) }),
    events: { record: () => {}, flush: async () => {} },
    registry,
    world: {
      caches,
      promises: createNamespacePromises(caches, clock),
      rates,
      evaluationIntervalMs: 15_000,
      approvals: { forClaim: () => [] },
      metricsStale: () => false,
    },
    policies: {
      forClaim: () => ({ policy, conflicts: [], ceilings }),
      entries: () => [],
      invalidate: () => {},
    },
    samples: { guide: () => true },
    ruleErrors: { note: () => {} },
    metrics,
    clusterRate: { take: () => true, turnMs: () => 0 },
    onDecided: () => {},
    onWritten: () => {},
    epoch: () => 3,
    clock,
    log: createRecordingLog().log,
  });
  const claimSays = (request: string, capacityGib: number): void => {
    caches.claims.put({
      ...claim,
      spec: { ...claim.spec, resources: { requests: { storage: request } } },
      status: { phase: "Bound", capacity: { storage: `${capacityGib}Gi` } },
    });
    registry.claimSeen(handle, capacityGib * GIB, instantOf(clock));
  };
  caches.filesystems.put(filesystem);
  caches.layouts.put(layout);
  claimSays("10Gi", 10);
  return {
    targets,
    claimSays,
    annotateClass: (annotations: Record<string, string>): void => {
      if (storageClass !== undefined)
        caches.storageClasses.put({ ...storageClass, metadata: { ...storageClass.metadata, annotations } });
    },
    setNodeClock: (aheadMs: number): void => {
      nodeAheadMs = aheadMs;
    },
    wait: (seconds: number): void => {
      nowMs += seconds * 1000;
    },
    refuse: (error: KubeError | undefined): void => {
      refusal = error;
    },
    /** One sample of a filesystem of so many GiB, and what is decided on it. */
    async decide(capacityGib: number, usedRatio: number): Promise<string | undefined> {
      nowMs += 1000;
      const capacityBytes = capacityGib * GIB;
      const availableBytes = capacityBytes - Math.round(capacityBytes * usedRatio);
      const figures = { capacityBytes, availableBytes, sizeBytes: capacityBytes, nodeFreeBytes: 4096 * GIB };
      const sampledAtMs = nowMs + nodeAheadMs;
      registry.sampled(NODE, Sample.fromPartial({ volumeHandle: handle, sampledAtMs, ...figures }), instantOf(clock));
      engine.evaluate(handle);
      await engine.settled();
      return engine.look(handle)?.plan.reason;
    },
  };
}
