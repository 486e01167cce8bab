// A namespace with a budget: the real engine, an API server that takes its writes, caches that see them when the test says so,
// and nodes that see, carry out and spend when the test says so. It knows, apart from the engine, how large all can become.

import { Sample } from "../../src/contracts/gen/tidemark/samples/v1/samples.ts";
import type { Filesystem, ScalingStatus, WantedTarget } from "../../src/contracts/kinds/filesystem.ts";
import type { FilesystemLayout, LastOperation } from "../../src/contracts/kinds/filesystem-layout.ts";
import type { ClusterVolumePolicySpec } from "../../src/contracts/kinds/volume-policy.ts";
import type { KubeObject } from "../../src/contracts/kubernetes/object.ts";
import type { PersistentVolumeClaim } from "../../src/contracts/kubernetes/resources.ts";
import { formatQuantity, GIB, parseQuantity } from "../../src/contracts/quantities/quantity.ts";
import { createOwnWrites } from "../../src/platform/kube/client/writes.ts";
import { KubeError } from "../../src/platform/kube/kube-error.ts";
import { type Clock, instantOf } from "../../src/platform/process/clock.ts";
import type { Logger } from "../../src/platform/process/log.ts";
import { createEngine, type Engine } from "../../src/policy-engine/engine/engine.ts";
import { createRateLimit } from "../../src/policy-engine/engine/own-limits.ts";
import { createNamespacePromises } from "../../src/policy-engine/gather/namespace-promises.ts";
import type { PolicyBook } from "../../src/policy-engine/gather/policy-book.ts";
import { createChangeRates } from "../../src/policy-engine/gather/rates/change-rates.ts";
import { createVolumeRegistry, type VolumeRegistry } from "../../src/policy-engine/gather/volume-registry.ts";
import type { EngineMetrics } from "../../src/policy-engine/metrics.ts";
import type { Approval } from "../../src/policy-engine/policies/approvals.ts";
import { type Ceilings, readCeilings } from "../../src/policy-engine/policies/ceilings.ts";
import type { CompiledPolicy } from "../../src/policy-engine/policies/compiled-policy.ts";
import { buildClaim } from "../builders/claim.ts";
import { NOW_MS } from "../builders/facts.ts";
import { aPolicy } from "../builders/policy.ts";
import { type EngineCaches, engineCaches } from "../fakes/engine-caches.ts";
import { createRecordingLog, type LogLine } from "../fakes/recording-log.ts";
import { servedClient } from "../fakes/served-client.ts";

export interface VolumeOfNamespace {
  readonly sizeBytes: number;
  readonly usedRatio: number;
  readonly isMounted?: boolean;
  /** The claim asks for this much now, and did not before. */
  readonly raisedRequestBytes?: number;
  /** Default: node-a. */
  readonly nodeName?: string;
  /** It stands already, and the node knows. */
  readonly grantBytes?: number;
}

interface Replica {
  readonly caches: EngineCaches;
  readonly registry: VolumeRegistry;
  readonly engine: Engine;
}

interface ApiObjects {
  filesystem: Filesystem;
  layout: FilesystemLayout;
}

const NODE = "node-a";
const EPOCH = 3;
const TURN_MS = 10;

const GROWING = aPolicy({
  limits: { min: "1Gi", max: "1000Gi", minAvailable: "512Mi" },
  rules: [{ name: "extend-at-80", action: "Extend", when: "volume.usedRatio >= 0.8", targetUsed: "60%" }],
});

/** How the API server answers a write: "lost" takes it and never says so, "refused" does not take it. */
export type Answers = "prompt" | "lost" | "refused";

export class BudgetedNamespace {
  readonly handles: readonly string[];
  readonly lines: LogLine[];
  /** What the engine wrote to the API server since it began: "target", "status" or "grant" of a volume. */
  readonly writes: string[] = [];
  /** Of every claim. */
  approvals: readonly Approval[] = [];
  readonly #log: Logger;
  readonly #policy: CompiledPolicy;
  readonly #ceilings: Ceilings;
  readonly #metrics: EngineMetrics;
  readonly #api = new Map<string, ApiObjects>();
  readonly #nodeGrantBytes = new Map<string, number>();
  readonly #claims: readonly PersistentVolumeClaim[];
  readonly #usedRatios = new Map<string, number>();
  /** What no clock that is set changes. */
  #nowMs = NOW_MS;
  #engineAheadMs = 0;
  #nodeAheadMs = 0;
  #answers: Answers = "prompt";
  readonly #rate = createRateLimit(1000);
  #isRateSpent = false;
  #heldGrants: (() => void)[] | undefined;
  #replica: Replica;

  constructor(
    budgetBytes: number,
    volumes: readonly VolumeOfNamespace[],
    metrics: EngineMetrics,
    policy: CompiledPolicy = GROWING,
    rates: Pick<
      NonNullable<ClusterVolumePolicySpec["ceilings"]>,
      "changesPerHourPerNamespace" | "concurrentOperations"
    > = {},
  ) {
    this.#policy = policy;
    const bytesPerNamespace = formatQuantity(budgetBytes);
    this.#ceilings = readCeilings("guard", { max: "1Ti", bytesPerNamespace, ...rates });
    const { log, lines } = createRecordingLog();
    this.#log = log;
    this.lines = lines;
    this.#metrics = metrics;
    this.handles = volumes.map((_, index) => `v${index}`);
    this.#claims = this.handles.map((handle, index) => claimOf(handle, volumes[index]?.raisedRequestBytes));
    for (const [index, handle] of this.handles.entries()) this.#make(handle, volumes[index] as VolumeOfNamespace);
    this.#replica = this.#start();
  }

  /** Another engine takes over: it knows what the API server has. */
  restart(): void {
    this.#replica = this.#start();
  }

  /** Time goes on, and each mounted volume is measured. */
  tick(seconds = 1): void {
    this.#nowMs += seconds * 1000;
    for (const handle of this.handles) this.#measure(handle);
  }

  /** From now on the engine's clock shows this much more than it should. */
  setEngineClock(aheadMs: number): void {
    this.#engineAheadMs = aheadMs;
  }

  /** The same of the node's: what it stamps on samples and operations. */
  setNodeClock(aheadMs: number): void {
    this.#nodeAheadMs = aheadMs;
  }

  use(handle: string, usedRatio: number): void {
    this.#nowMs += 1; // or the sample would be no news
    this.#usedRatios.set(handle, usedRatio);
    this.#measure(handle);
  }

  /** One round of the engine; its writes are in the API server then, and in its caches when they are watched. */
  async decide(handles: readonly string[] = this.handles): Promise<void> {
    await this.evaluate(handles);
    await this.#replica.engine.settled();
  }

  /** The same, while its writes are still on their way. */
  async evaluate(handles: readonly string[] = this.handles): Promise<void> {
    await this.#replica.engine.evaluateAll(handles);
  }

  /** The engine's caches see what the API server has. */
  watch(): void {
    const { caches, registry } = this.#replica;
    for (const { filesystem, layout } of this.#api.values()) {
      caches.filesystems.put(filesystem);
      caches.layouts.put(layout);
      registry.layoutSeen(layout, instantOf(this.#engineClock));
    }
  }

  /** From now on, to every write. */
  answer(how: Answers): void {
    this.#answers = how;
  }

  /** Whether other volumes take all changes that the engine makes in a second. */
  spendRate(isSpent: boolean): void {
    this.#isRateSpent = isSpent;
  }

  /** Until those that found no change left have had their turn, and what they asked for is in the API server. */
  async turnsCome(): Promise<void> {
    await new Promise((resolve) => setTimeout(resolve, 2 * TURN_MS));
    await this.#replica.engine.settled();
  }

  /** From now on grants wait on their way to the API server. */
  holdGrants(): void {
    this.#heldGrants ??= [];
  }

  /** How many grants are on their way. */
  grantsUnderWay(): number {
    return this.#heldGrants?.length ?? 0;
  }

  /** The grants on their way arrive, and what was asked for meanwhile is decided. */
  async releaseGrants(): Promise<void> {
    const held = this.#heldGrants ?? [];
    this.#heldGrants = undefined;
    for (const arrive of held) arrive();
    await this.#replica.engine.settled();
    await this.#replica.engine.settled();
  }

  /** The engine hears that the claim was deleted and that somebody made another of its name. */
  remakeClaim(handle: string): void {
    this.#replica.caches.claims.put({ ...claimOf(handle, undefined), metadata: claimMetadata(handle, "another-uid") });
  }

  /** The engine hears that the claim is gone; its layout is there still. */
  deleteClaim(handle: string): void {
    this.#replica.caches.claims.remove(`shop/${handle}`);
  }

  /** The node reads the grant that there is, or that there is none any more, and reports that it has. */
  nodeSeesGrant(handle: string): void {
    const { layout } = this.#of(handle);
    this.#nodeGrantBytes.set(handle, grantBytes(layout));
    this.#status(handle, { observedGeneration: layout.metadata.generation ?? 0 });
  }

  /** The node takes all it was granted, as far as it knows. */
  nodeSpendsGrant(handle: string): void {
    this.#resize(handle, this.#nodeGrantBytes.get(handle) ?? 0, undefined);
  }

  nodeReachesTarget(handle: string): void {
    const { target } = this.#of(handle).filesystem.spec;
    if (target !== undefined && this.isStanding(handle))
      this.#resize(handle, parseQuantity(target.size), target.decidedAt);
  }

  nodeGivesTargetUp(handle: string): void {
    const { target } = this.#of(handle).filesystem.spec;
    if (target !== undefined) this.#end(handle, "Failed", this.sizeBytes(handle), target.decidedAt);
  }

  /** The shrink that it was asked for; no step of it is done. */
  nodeBegins(handle: string): void {
    const { target } = this.#of(handle).filesystem.spec;
    if (target === undefined) throw new Error(`nothing is asked of ${handle}`);
    const { size: to, from, decidedAt } = target;
    const startedAt = new Date(this.#nowMs + this.#nodeAheadMs).toISOString();
    this.#status(handle, {
      operation: { kind: "Shrink", from, to, step: "shrink", epoch: EPOCH, startedAt, decidedAt },
    });
  }

  /** It ends what runs, with the size as it is. */
  nodeStops(handle: string): void {
    const { operation, ...status } = this.#of(handle).layout.status ?? {};
    if (!operation) throw new Error(`nothing runs on ${handle}`);
    this.#put(handle, { ...this.#of(handle).layout, status }, 0);
    this.#end(handle, "Cancelled", this.sizeBytes(handle), operation.decidedAt);
    const last = this.#of(handle).layout.status?.lastOperation;
    if (last !== undefined) this.#status(handle, { lastOperation: { ...last, kind: "Shrink" } });
  }

  sizeBytes(handle: string): number {
    return sizeOf(this.#of(handle).layout);
  }

  /** The grant that stands in the API server; 0: none. */
  grantBytes(handle: string): number {
    return grantBytes(this.#of(handle).layout);
  }

  grantExpiry(handle: string): string | undefined {
    return this.#of(handle).layout.spec.emergency?.expiry;
  }

  /** The target that stands in the API server. */
  targetOf(handle: string): WantedTarget | undefined {
    return this.#of(handle).filesystem.spec.target;
  }

  /** Its target is not carried out yet. */
  isStanding(handle: string): boolean {
    const { filesystem, layout } = this.#of(handle);
    const { target } = filesystem.spec;
    return target !== undefined && target.decidedAt !== layout.status?.lastOperation?.decidedAt;
  }

  extendsReported(handle: string): number {
    return this.#of(handle).filesystem.status?.scaling?.extendedAt?.length ?? 0;
  }

  scalingOf(handle: string): ScalingStatus | undefined {
    return this.#of(handle).filesystem.status?.scaling;
  }

  reasonOf(handle: string): string | undefined {
    return this.#of(handle).filesystem.status?.scaling?.reason;
  }

  /** What all sizes add up to if every node carries out and spends whatever it knows of or may yet read. */
  reachableBytes(): number {
    return this.handles.reduce((sum, handle) => {
      const { filesystem, layout } = this.#of(handle);
      const targetBytes = this.isStanding(handle) ? parseQuantity(filesystem.spec.target?.size ?? "0") : 0;
      return sum + Math.max(sizeOf(layout), targetBytes, grantBytes(layout), this.#nodeGrantBytes.get(handle) ?? 0);
    }, 0);
  }

  get #engineClock(): Clock {
    return { nowMs: () => this.#nowMs + this.#engineAheadMs, monotonicMs: () => this.#nowMs };
  }

  #start(): Replica {
    const caches = engineCaches();
    const rates = createChangeRates(caches, this.#engineClock);
    const registry = createVolumeRegistry(rates.ended);
    const engine = createEngine({
      ownGrants: createOwnWrites(this.#engineClock),
      client: servedClient({ apply: (_point, _resource, object) => this.#answerTo(object) }),
      events: { record: () => {}, flush: async () => {} },
      registry,
      world: {
        caches,
        promises: createNamespacePromises(caches, this.#engineClock),
        rates,
        evaluationIntervalMs: 15_000,
        approvals: { forClaim: () => this.approvals },
        metricsStale: () => false,
      },
      policies: policiesUnder(this.#ceilings, this.#policy),
      samples: { guide: () => true },
      ruleErrors: { note: () => {} },
      metrics: this.#metrics,
      clusterRate: { take: (atMs) => !this.#isRateSpent && this.#rate.take(atMs), turnMs: () => TURN_MS },
      onDecided: () => {},
      onWritten: () => {},
      epoch: () => EPOCH,
      clock: this.#engineClock,
      log: this.#log,
    });
    this.#replica = { caches, registry, engine };
    for (const claim of this.#claims) caches.claims.put(claim);
    this.watch();
    for (const [handle, { filesystem }] of this.#api)
      if (filesystem.status?.scaling !== undefined)
        registry.recall(handle, filesystem.status.scaling, instantOf(this.#engineClock));
    for (const handle of this.handles) this.#measure(handle);
    return this.#replica;
  }

  #make(handle: string, volume: VolumeOfNamespace): void {
    const { sizeBytes, usedRatio, isMounted = true, grantBytes: granted, nodeName = NODE } = volume;
    const uid = uidOf(handle);
    const named = { namespace: "shop", name: handle, uid };
    const apiVersion = "tidemark.dev/v1alpha1";
    const emergency = granted && {
      size: formatQuantity(granted),
      minAvailable: "512Mi",
      expiry: new Date(NOW_MS + 20 * 3_600_000).toISOString(),
      epoch: EPOCH,
    };
    this.#nodeGrantBytes.set(handle, granted ?? 0);
    this.#api.set(handle, {
      filesystem: { apiVersion, kind: "Filesystem", metadata: named, spec: { claimRef: { name: handle, uid } } },
      layout: {
        apiVersion,
        kind: "FilesystemLayout",
        metadata: { name: handle, uid: `layout-${handle}`, generation: 1, resourceVersion: "1" },
        spec: { claimRef: named, backend: "loop", fsType: "btrfs", nodeName, ...(emergency && { emergency }) },
        status: {
          nodeName,
          mounted: isMounted,
          observedGeneration: 1,
          members: [{ name: "m0", size: formatQuantity(sizeBytes), state: "Present" }],
        },
      },
    });
    this.#usedRatios.set(handle, usedRatio);
  }

  #measure(handle: string): void {
    const { layout } = this.#of(handle);
    if (layout.status?.mounted !== true) return;
    const capacityBytes = sizeOf(layout);
    const usedBytes = Math.round(capacityBytes * (this.#usedRatios.get(handle) ?? 0));
    const figures = { capacityBytes, availableBytes: capacityBytes - usedBytes, sizeBytes: capacityBytes };
    const stamps = {
      sampledAtMs: this.#nowMs + this.#nodeAheadMs,
      lastOperationEndedAtMs: Date.parse(layout.status.lastOperation?.endedAt ?? "") || 0,
    };
    const sample = { volumeHandle: handle, nodeFreeBytes: 4096 * GIB, ...stamps, ...figures };
    this.#replica.registry.sampled(
      layout.spec.nodeName ?? NODE,
      Sample.fromPartial(sample),
      instantOf(this.#engineClock),
    );
  }

  async #answerTo(object: KubeObject): Promise<KubeObject> {
    const held = object.kind === "FilesystemLayout" ? this.#heldGrants : undefined;
    if (held !== undefined) await new Promise<void>((arrive) => held.push(arrive));
    if (this.#answers === "refused") throw new KubeError("Invalid", 422, "the test refuses the write");
    const taken = this.#take(object);
    if (this.#answers === "lost") throw new KubeError("Unreachable", 0, "the answer was lost");
    return taken;
  }

  /** A server-side apply of the engine: the target, the grant or the status. Returns the object as it is then. */
  #take(object: KubeObject & { spec?: object; status?: object }): KubeObject {
    const [handle, known] = [...this.#api].find(([, of]) => isSame(of, object)) ?? [];
    if (handle === undefined || known === undefined)
      throw new Error(`nobody made ${object.kind} ${object.metadata.name}`);
    this.writes.push(`${object.kind === "Filesystem" ? (object.status ? "status" : "target") : "grant"} ${handle}`);
    if (object.kind === "Filesystem") {
      known.filesystem = {
        ...known.filesystem,
        spec: { ...known.filesystem.spec, ...object.spec },
        ...(object.status && { status: object.status }),
      };
      return known.filesystem;
    }
    const { emergency: _before, ...spec } = known.layout.spec;
    this.#put(handle, { ...known.layout, spec: { ...spec, ...object.spec } }, 1);
    return this.#of(handle).layout;
  }

  #resize(handle: string, sizeBytes: number, decidedAt: string | undefined): void {
    const isLarger = sizeBytes > this.sizeBytes(handle);
    if (this.#of(handle).layout.status?.mounted === true && (isLarger || decidedAt !== undefined))
      this.#end(handle, "Succeeded", sizeBytes, decidedAt);
  }

  #end(handle: string, outcome: LastOperation["outcome"], reachedBytes: number, decidedAt: string | undefined): void {
    const endedAt = new Date(this.#nowMs + this.#nodeAheadMs).toISOString();
    const reached = formatQuantity(reachedBytes);
    const from = formatQuantity(this.sizeBytes(handle));
    const named = decidedAt === undefined ? { emergency: true } : { decidedAt };
    this.#status(handle, {
      members: [{ name: "m0", size: reached, state: "Present" }],
      lastOperation: {
        kind: reachedBytes < this.sizeBytes(handle) ? "Shrink" : "Extend",
        outcome,
        from,
        to: reached,
        reached,
        epoch: EPOCH,
        startedAt: endedAt,
        endedAt,
        ...named,
      },
    });
  }

  #status(handle: string, status: NonNullable<FilesystemLayout["status"]>): void {
    const { layout } = this.#of(handle);
    this.#put(handle, { ...layout, status: { ...layout.status, ...status } }, 0);
  }

  #put(handle: string, layout: FilesystemLayout, generations: number): void {
    const { generation = 0, resourceVersion } = layout.metadata;
    const metadata = {
      ...layout.metadata,
      generation: generation + generations,
      resourceVersion: String(Number(resourceVersion) + 1),
    };
    this.#of(handle).layout = { ...layout, metadata };
  }

  #of(handle: string): ApiObjects {
    const objects = this.#api.get(handle);
    if (objects === undefined) throw new Error(`no volume ${handle}`);
    return objects;
  }
}

function policiesUnder(ceilings: Ceilings, policy: CompiledPolicy): PolicyBook {
  return { forClaim: () => ({ policy, conflicts: [], ceilings }), entries: () => [], invalidate: () => {} };
}

const uidOf = (handle: string): string => `uid-${handle}`;

function claimMetadata(name: string, uid: string): PersistentVolumeClaim["metadata"] {
  return { namespace: "shop", name, uid, creationTimestamp: "2026-11-01T00:00:00Z" };
}

function claimOf(name: string, raisedRequestBytes: number | undefined): PersistentVolumeClaim {
  return {
    ...buildClaim({ name, request: formatQuantity(raisedRequestBytes ?? 100 * GIB) }),
    metadata: claimMetadata(name, uidOf(name)),
    ...(raisedRequestBytes !== undefined && { status: { capacity: { storage: "1Gi" } } }),
  };
}

function isSame({ filesystem, layout }: ApiObjects, { kind, metadata }: KubeObject): boolean {
  return kind === "Filesystem" ? filesystem.metadata.name === metadata.name : layout.metadata.name === metadata.name;
}

function sizeOf({ status }: FilesystemLayout): number {
  return parseQuantity(status?.members?.[0]?.size ?? "0");
}

function grantBytes({ spec: { emergency } }: FilesystemLayout): number {
  return emergency === undefined ? 0 : parseQuantity(emergency.size);
}
