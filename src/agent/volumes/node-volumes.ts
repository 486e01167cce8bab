// The agent without its outside: one node's volumes, from what is recorded, sampled and wanted to what is done about them. Each is checked
// in its turn of one queue, staged in its own queue, and resized by one runner; here the parts are put together, each is in the file of its
// name. A volume that kubelet names is found here, too.

import type { Guidance, Sample } from "../../contracts/gen/tidemark/samples/v1/samples.ts";
import { FILESYSTEM_LAYOUTS, type FilesystemLayout } from "../../contracts/kinds/filesystem-layout.ts";
import type { ReadableStore } from "../../platform/kube/cache/store.ts";
import type { KubeClient } from "../../platform/kube/client/client.ts";
import { createWorkQueue, type WorkQueue } from "../../platform/kube/queue/work-queue.ts";
import { BACK_OFFS } from "../../platform/process/async/back-off.ts";
import { createKeyedQueue, type KeyedQueue } from "../../platform/process/async/keyed-queue.ts";
import { type Clock, readBootID } from "../../platform/process/clock.ts";
import type { CommandPort } from "../../platform/process/effects/command-port.ts";
import type { FilePort } from "../../platform/process/effects/file-port.ts";
import type { Logger } from "../../platform/process/log.ts";
import type { Stoppable } from "../../platform/process/shutdown.ts";
import { createFilesystemLocks } from "../apply/filesystem-lock.ts";
import type { OperationEnvironment } from "../apply/record-operation.ts";
import { createOperationRunner, type OperationRunner } from "../apply/run-operation.ts";
import { shrinkAtUnmount } from "../apply/shrink-after-unmount.ts";
import { spendEmergency } from "../apply/spend-emergency.ts";
import { createStaging, type Staging, type StagingParts } from "../apply/staging.ts";
import { createVolumeTrimmer } from "../apply/volume-trimmer.ts";
import type { CsiNodeParts } from "../csi/mount-volume.ts";
import { isRemovalWanted, recordWithLayout } from "../gather/layout-record.ts";
import { createMovingWatch, startMountWatch } from "../gather/mount-watches.ts";
import { type AgentMetrics, createAgentMetrics } from "../metrics.ts";
import { isClaimLayout } from "../ordinary-claims/find-claims.ts";
import type { Storage } from "../storage/storage.ts";
import { createLayoutExchange, type LayoutExchange } from "./layout-exchange.ts";
import { createNodeRecords, type NodeRecords } from "./node-records.ts";
import { type NodeSampling, type NodeSamplingParts, startNodeSampling } from "./node-sampling.ts";
import { NodeVolume, type VolumesByHandle } from "./node-volume.ts";
import { type ReconcileEnvironment, reconcileNodeVolume } from "./reconcile-node-volume.ts";
import { newVolumeState } from "./volume-state.ts";

export interface NodeVolumesParts {
  readonly nodeName: string;
  readonly recordDirectory: string;
  readonly lockDirectory: string;
  readonly kubeletDirectory: string;
  readonly samplerWorkerPath: string;
  readonly storage: Storage;
  /** What reads mounts for the storage's operations. */
  readonly mounts: NodeSamplingParts["mounts"];
  readonly client: KubeClient;
  readonly commands: CommandPort;
  readonly files: FilePort;
  readonly clock: Clock;
  readonly log: Logger;
  /** Where changed samples go. */
  readonly offer: (samples: readonly Sample[]) => void;
  readonly connectedEngines: () => number;
  /** An operation has ended, so that the volume's size may be another. */
  readonly resized: (handle: string) => void;
}

export interface NodeVolumes {
  readonly csi: Pick<CsiNodeParts, "staging" | "queues" | "findVolume">;
  readonly exchange: Pick<LayoutExchange, "layouts" | "layoutsSynced">;
  readonly volumes: VolumesByHandle;
  readonly metrics: AgentMetrics;
  /** Undefined while mounted filesystems can be read. */
  unhealthy(): string | undefined;
  /** Threads that hang in the kernel, on whosever filesystems. */
  strandedThreads(): number;
  /** The newest of all volumes. */
  samples(): Sample[];
  guided(guidance: readonly Guidance[]): void;
  highestEpoch(): number;
  /** True once the API server has been heard. */
  layoutsKnown(): boolean;
  /** Takes over what earlier agents staged, and follows the layouts. */
  start(): void;
  readonly stoppables: readonly Stoppable[];
}

export function createNodeVolumes(parts: NodeVolumesParts): NodeVolumes {
  const { nodeName, storage, client, clock, log, files } = parts;
  const volumes: VolumesByHandle = new Map();
  const bootID = readBootID();
  const records = createNodeRecords(parts.recordDirectory, files, (path, err) =>
    log.error({ path, err }, "a record cannot be read; its volume is found again when kubelet stages it"),
  );
  const exchange = createLayoutExchange({ nodeName, volumes, client, clock, log });
  const changed = (handle: string): void => work.queue.add(handle);

  const sampling = startNodeSampling({
    ...parts,
    volumes,
    layouts: exchange.claimLayouts,
    spendEmergency: (volume) => void spendEmergency({ runner: work.runner, clock, bootID, log }, volume),
    changed,
  });
  const { sampler, claims, strandedThreads, unhealthy } = sampling;
  const metrics = metricsOf(parts, volumes, sampling);
  const { layouts, layoutsKnown } = exchange;
  const environment = { ...parts, ...exchange, volumes, records, sampler, metrics, bootID, changed };
  const work = createVolumeWork(environment);
  const trimmer = createVolumeTrimmer(environment);
  const mountWatch = startMountWatch({ volumes, storage, changed, log });
  const moving = createMovingWatch(environment);
  return {
    csi: {
      staging: work.staging,
      queues: work.queues,
      findVolume: (handle) => findVolume({ nodeName, volumes, layouts, client }, handle),
    },
    exchange,
    volumes,
    metrics,
    unhealthy,
    strandedThreads,
    samples: sampling.samples,
    guided: sampling.guided,
    highestEpoch: () => Math.max(0, ...[...volumes.values()].map(({ state }) => state.record.epoch)),
    layoutsKnown,
    start: () => {
      for (const handle of takeUpRecords(records, volumes)) changed(handle);
      exchange.follow((handle) => {
        const volume = volumes.get(handle);
        if (volume !== undefined) work.staging.layoutChanged(volume, layouts.get(handle));
        changed(handle);
      }, claims.look);
      trimmer.start();
      moving.start();
    },
    stoppables: [
      ...sampling.stoppables,
      { name: "looks at mounts", stop: () => mountWatch.stop() },
      ...exchange.stoppables,
      { name: "volumes", stop: () => work.stop() },
      { name: "trims", stop: () => trimmer.stop() },
      { name: "looks at moving", stop: () => moving.stop() },
    ],
  };
}

function metricsOf(
  { clock, commands, connectedEngines }: NodeVolumesParts,
  volumes: VolumesByHandle,
  { claims, strandedThreads }: NodeSampling,
): AgentMetrics {
  return createAgentMetrics({
    volumes,
    claims: claims.all,
    clock,
    strandedThreads,
    strandedCommands: commands.strandedChildren,
    connectedEngines,
  });
}

/** What earlier agents left written; returns the handles. */
function takeUpRecords(records: NodeRecords, volumes: VolumesByHandle): string[] {
  const found = records.readAll();
  for (const record of found) volumes.set(record.handle, new NodeVolume(newVolumeState(record, true)));
  return found.map(({ handle }) => handle);
}

export interface VolumeWorkParts
  extends Omit<ReconcileEnvironment, "staging" | "runner">,
    Pick<OperationEnvironment, "metrics">,
    Pick<StagingParts, "changed"> {
  readonly lockDirectory: string;
  readonly commands: CommandPort;
  readonly files: FilePort;
  readonly resized: (handle: string) => void;
}

export interface VolumeWork {
  readonly runner: OperationRunner;
  /** What changes whether a volume is mounted, by handle: stage, publish, unstage, adopt, remove. */
  readonly queues: KeyedQueue;
  readonly staging: Staging;
  readonly queue: WorkQueue;
  /** Starts nothing more, and ends shrinks where they are: no process would watch them. Extends are left to the kernel. */
  stop(): Promise<void>;
}

/** Volumes at work at the same time: a hung one keeps a place until its time limit. */
const RECONCILE_CONCURRENCY = 32;
/** For one volume, under way and waiting: callers of a hung one come again. */
const CALLS_LIMIT = 8;

export function createVolumeWork(parts: VolumeWorkParts): VolumeWork {
  const { log, lockDirectory, files, commands, changed, resized } = parts;
  const ended = (handle: string): void => {
    changed(handle);
    resized(handle);
  };
  const operations = { ...parts, ended };
  const runner = createOperationRunner(operations);
  const queues = createKeyedQueue(CALLS_LIMIT);
  const staging = createStaging({
    ...parts,
    locks: createFilesystemLocks(lockDirectory, files, commands),
    queues,
    shrinkAtUnmount: (volume) => shrinkAtUnmount(operations, volume),
  });
  const queue = createWorkQueue({
    name: "volumes",
    concurrency: RECONCILE_CONCURRENCY,
    backOff: BACK_OFFS.node,
    log,
    run: (handle) => reconcileNodeVolume({ ...parts, staging, runner }, handle),
  });
  const endShrinks = async (): Promise<void> => {
    const shrinking = [...parts.volumes.values()].filter(({ state }) => state.running?.operation.kind === "Shrink");
    for (const { handle } of shrinking) log.info({ volume: handle }, "the agent ends, and cancels its shrink");
    await Promise.all(shrinking.map((volume) => volume.cancelAndWait({ because: "AgentEnds" })));
  };
  const stop = async (): Promise<void> => {
    // Not after the queue: what it still runs may wait for long.
    await Promise.all([queue.stop(), endShrinks()]);
    await endShrinks(); // one that was about to begin
  };
  return { runner, queues, staging, queue, stop };
}

export interface VolumeFinder {
  readonly nodeName: string;
  readonly volumes: VolumesByHandle;
  readonly layouts: ReadableStore<FilesystemLayout>;
  readonly client: Pick<KubeClient, "get">;
}

/** Undefined when it is not this node's. Throws KubeError, LayoutError. */
export async function findVolume(finder: VolumeFinder, handle: string): Promise<NodeVolume | undefined> {
  const { volumes, layouts, client, nodeName } = finder;
  const known = volumes.get(handle);
  if (known?.state.recorded === true) return known;
  const heard = layouts.get(handle);
  // The watch may be behind, so the API server is asked. A layout is blank at first; a span comes to a node right before kubelet stages it
  // there; a new volume may have the name of a deleted one.
  const isOurs = heard?.spec.nodeName === nodeName && !isRemovalWanted(heard);
  const layout = isOurs ? heard : await client.get(FILESYSTEM_LAYOUTS, { name: handle });
  if (layout?.spec.nodeName !== nodeName || isRemovalWanted(layout) || isClaimLayout(layout)) return undefined;
  const volume = volumes.get(handle) ?? new NodeVolume(newVolumeState(recordWithLayout(layout, undefined), false));
  volume.dispatch({ type: "LayoutRead", record: recordWithLayout(layout, volume.state.record) });
  volumes.set(handle, volume);
  return volume;
}
