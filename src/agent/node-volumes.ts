// The agent without its outside: one node's volumes, from what is recorded, sampled and wanted to what is done about them.
// Here the parts are put together; each is in the file of its name.
import { FILESYSTEM_LAYOUTS } from "../api/filesystem-layout.ts";
import type { Guidance, Sample } from "../gen/tidemark/samples/v1/samples.ts";
import { createApplier } from "../kube/apply.ts";
import type { KubeClient } from "../kube/client.ts";
import { createEventRecorder } from "../kube/events.ts";
import { createReflector } from "../kube/reflector.ts";
import { createWorkQueue } from "../kube/work-queue.ts";
import type { Clock } from "../process/clock.ts";
import type { CommandPort } from "../process/command-port.ts";
import type { FilePort } from "../process/file-port.ts";
import type { Logger } from "../process/log.ts";
import type { Stoppable } from "../process/shutdown.ts";
import type { CsiNodeParts } from "./csi-node.ts";
import { createFilesystemLocks } from "./filesystem-lock.ts";
import { findVolume } from "./find-volume.ts";
import { type AgentMetrics, createAgentMetrics } from "./metrics.ts";
import { startNodeMeasurer } from "./node-measures.ts";
import { createNodeRecords } from "./node-records.ts";
import { reconcileVolume } from "./reconcile-volume.ts";
import { createOperationRunner } from "./run-operation.ts";
import { createSampleSink } from "./sample-sink.ts";
import { createSampler, type Sampler } from "./sampler.ts";
import { spendEmergency } from "./spend-emergency.ts";
import { createStaging } from "./staging.ts";
import { createStatusReporter } from "./status-reporter.ts";
import type { Storage } from "./storage/storage.ts";
import { createVolumeLanes } from "./volume-lanes.ts";
import { newVolumeState, type VolumeStates } from "./volume-state.ts";
import { wireSample } from "./wire-sample.ts";

export interface NodeVolumesParts {
  readonly nodeName: string;
  readonly recordDirectory: string;
  readonly lockDirectory: string;
  readonly samplerWorkerPath: string;
  readonly storage: Storage;
  readonly client: KubeClient;
  readonly commands: CommandPort;
  readonly files: FilePort;
  readonly clock: Clock;
  readonly log: Logger;
  /** Where changed samples go. */
  readonly offer: (samples: readonly Sample[]) => void;
  readonly connectedEngines: () => number;
}

export interface NodeVolumes {
  readonly csi: Pick<CsiNodeParts, "staging" | "lanes" | "findVolume">;
  readonly metrics: AgentMetrics;
  readonly sampler: Sampler;
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

/** Volumes at work at the same time: a hung one keeps a place until its time limit. */
const RECONCILE_CONCURRENCY = 32;
const RETRY_BACK_OFF = { baseMs: 200, capMs: 30_000 };

export function createNodeVolumes(parts: NodeVolumesParts): NodeVolumes {
  const { nodeName, storage, client, clock, log, commands, files } = parts;
  const states: VolumeStates = new Map();
  const records = createNodeRecords(parts.recordDirectory, files, (path, err) =>
    log.error({ path, err }, "a record cannot be read; its volume is found again when kubelet stages it"),
  );
  const reflector = createReflector({ client, resource: FILESYSTEM_LAYOUTS, log });
  const layouts = reflector.store;
  const layoutsKnown = (): boolean => reflector.lastContactMs() !== undefined;
  const events = createEventRecorder({ client, component: "tidemark-agent", nowMs: clock.nowMs, log });
  const applier = createApplier(client);
  const reporter = createStatusReporter({ nodeName, states, layouts, client, applier, events, clock, log });
  const changed = (handle: string): void => queue.add(handle);

  const measurer = startNodeMeasurer(storage, states, clock, log);
  const sampler = createSampler({
    workerPath: parts.samplerWorkerPath,
    clock,
    log,
    listener: createSampleSink({
      states,
      sampleOf: (state) => wireSample(state, measurer.of(state.handle)),
      offer: parts.offer,
      spendEmergency: (state) => void spendEmergency({ runner, clock, log }, state),
      changed,
      nowMs: clock.nowMs,
      log,
    }),
  });
  const metrics = createAgentMetrics({
    states,
    clock,
    strandedThreads: sampler.strandedThreads,
    strandedCommands: commands.strandedChildren,
    connectedEngines: parts.connectedEngines,
  });
  const runner = createOperationRunner({ storage, records, reporter, sampler, metrics, clock, log, ended: changed });
  const lanes = createVolumeLanes();
  const staging = createStaging({
    storage,
    records,
    locks: createFilesystemLocks(parts.lockDirectory, files, commands),
    lanes,
    sampler,
    log,
    quiesce: (state) => runner.cancelAndWait(state, "the volume is being unstaged"),
    changed,
  });
  const environment = { nodeName, states, layouts, layoutsKnown, storage, records, staging, runner, sampler, reporter };
  const queue = createWorkQueue({
    name: "volumes",
    concurrency: RECONCILE_CONCURRENCY,
    backOff: RETRY_BACK_OFF,
    log,
    run: (handle) => reconcileVolume({ ...environment, clock, log }, handle),
  });

  return {
    csi: { staging, lanes, findVolume: (handle) => findVolume({ nodeName, states, layouts, client }, handle) },
    metrics,
    sampler,
    samples: () => [...states.values()].flatMap((state) => wireSample(state, measurer.of(state.handle)) ?? []),
    guided: (guidance) => {
      for (const { volumeHandle, nextExtendUsedBytes } of guidance)
        sampler.setNextExtend(volumeHandle, nextExtendUsedBytes);
    },
    highestEpoch: () => Math.max(0, ...[...states.values()].map(({ record }) => record.epoch)),
    layoutsKnown,
    start: () => {
      for (const record of records.readAll()) {
        states.set(record.handle, newVolumeState(record, true));
        queue.add(record.handle);
      }
      const add = ({ metadata: { name } }: { metadata: { name: string } }): void => queue.add(name);
      reflector.subscribe({ added: add, updated: add, deleted: add });
      reflector.start();
    },
    stoppables: [
      { name: "sampling", stop: () => sampler.stop() },
      { name: "measures", stop: () => measurer.stop() },
      { name: "events", stop: () => events.flush() },
      { name: "reflector", stop: () => reflector.stop() },
      { name: "volumes", stop: () => queue.stop() },
    ],
  };
}
