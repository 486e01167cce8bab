// The agent without its outside: one node's volumes, from what is recorded, sampled and wanted to what is done about them.
// Here the parts are put together; each is in the file of its name.
import type { Guidance, Sample } from "../../gen/tidemark/samples/v1/samples.ts";
import type { KubeClient } from "../../kube/client/client.ts";
import { readBootID } from "../../process/boot-id.ts";
import type { Clock } from "../../process/clock.ts";
import type { CommandPort } from "../../process/command-port.ts";
import type { FilePort } from "../../process/file-port.ts";
import type { Logger } from "../../process/log.ts";
import type { Stoppable } from "../../process/shutdown.ts";
import { spendEmergency } from "../apply/spend-emergency.ts";
import { createVolumeTrimmer } from "../apply/volume-trimmer.ts";
import type { CsiNodeParts } from "../csi/csi-node.ts";
import { createClaimMeasurer } from "../foreign-claims/claim-measurer.ts";
import { findVolume } from "../gather/find-volume.ts";
import { startMountWatch } from "../gather/mount-watch.ts";
import { createMovingWatch } from "../gather/moving-watch.ts";
import { type AgentMetrics, createAgentMetrics } from "../metrics.ts";
import { startNodeMeasurer } from "../sampling/node-measures.ts";
import { createSampleSink, type SampleSinkParts } from "../sampling/sample-sink.ts";
import { createSampler, type Sampler } from "../sampling/sampler.ts";
import { isRecent, wireSample } from "../sampling/wire-sample.ts";
import type { Storage } from "../storage/storage.ts";
import { createLayoutExchange, type LayoutExchange } from "./layout-exchange.ts";
import { createNodeRecords, type NodeRecords } from "./node-records.ts";
import { newVolumeState, type VolumeState, type VolumeStates } from "./volume-state.ts";
import { createVolumeWork } from "./volume-work.ts";

export interface NodeVolumesParts {
  readonly nodeName: string;
  readonly recordDirectory: string;
  readonly lockDirectory: string;
  readonly kubeletDirectory: string;
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
  /** An operation has ended, so that the volume's size may be another. */
  readonly resized: (handle: string) => void;
}

export interface NodeVolumes {
  readonly csi: Pick<CsiNodeParts, "staging" | "lanes" | "findVolume">;
  readonly exchange: Pick<LayoutExchange, "layouts" | "layoutsSynced">;
  readonly states: VolumeStates;
  readonly metrics: AgentMetrics;
  readonly sampler: Sampler;
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
  const { nodeName, storage, client, clock, log, commands, files } = parts;
  const states: VolumeStates = new Map();
  const bootID = readBootID();
  const records = createNodeRecords(parts.recordDirectory, files, (path, err) =>
    log.error({ path, err }, "a record cannot be read; its volume is found again when kubelet stages it"),
  );
  const exchange = createLayoutExchange({ nodeName, states, client, clock, log });
  const changed = (handle: string): void => work.queue.add(handle);

  const measurer = startNodeMeasurer(storage, states, clock, log);
  const sampleOf = (state: VolumeState): Sample | undefined => wireSample(state, measurer.of(state));
  const sampler = openSampler(parts, {
    states,
    sampleOf,
    spendEmergency: (state) => void spendEmergency({ runner: work.runner, clock, bootID, log }, state),
    changed,
  });
  const claims = createClaimMeasurer({ ...parts, layouts: exchange.claimLayouts });
  const strandedThreads = (): number => sampler.strandedThreads() + claims.strandedThreads();
  const metrics = createAgentMetrics({
    states,
    claims: claims.all,
    clock,
    strandedThreads,
    strandedCommands: commands.strandedChildren,
    connectedEngines: parts.connectedEngines,
  });
  const { layouts, layoutsKnown, reporter } = exchange;
  const environment = {
    nodeName,
    states,
    layouts,
    layoutsKnown,
    storage,
    records,
    sampler,
    reporter,
    metrics,
    clock,
    bootID,
    log,
    changed,
  };
  const work = createVolumeWork({ ...environment, ...parts });
  const trimmer = createVolumeTrimmer(environment);
  const mountWatch = startMountWatch({ states, storage, changed, log });
  const moving = createMovingWatch(environment);
  return {
    csi: {
      staging: work.staging,
      lanes: work.lanes,
      findVolume: (handle) => findVolume({ nodeName, states, layouts, client }, handle),
    },
    exchange,
    states,
    metrics,
    sampler,
    strandedThreads,
    samples: () => {
      const recent = [...states.values()].filter(({ reading }) => isRecent(reading, clock.monotonicMs()));
      return [...recent.flatMap((state) => sampleOf(state) ?? []), ...claims.samples()];
    },
    guided: (guidance) => {
      for (const { volumeHandle, nextExtendUsedBytes } of guidance)
        (states.has(volumeHandle) ? sampler : claims).setNextExtend(volumeHandle, nextExtendUsedBytes);
    },
    highestEpoch: () => Math.max(0, ...[...states.values()].map(({ record }) => record.epoch)),
    layoutsKnown,
    start: () => {
      for (const handle of takeUpRecords(records, states)) changed(handle);
      exchange.follow((handle) => {
        work.staging.layoutChanged(handle, layouts.get(handle));
        changed(handle);
      }, claims.look);
      trimmer.start();
      moving.start();
    },
    stoppables: [
      { name: "sampling", stop: () => sampler.stop() },
      { name: "sampling of claims", stop: () => claims.stop() },
      { name: "measures", stop: () => measurer.stop() },
      { name: "looks at mounts", stop: () => mountWatch.stop() },
      ...exchange.stoppables,
      { name: "volumes", stop: () => work.stop() },
      { name: "trims", stop: () => trimmer.stop() },
      { name: "looks at moving", stop: () => moving.stop() },
    ],
  };
}

/** A read takes microseconds, and milliseconds on a machine that has no time; this long it takes only in a hung kernel. */
const HUNG_AFTER_MS = 250;

function openSampler(
  { samplerWorkerPath: workerPath, offer, clock, log }: NodeVolumesParts,
  sink: Omit<SampleSinkParts, "offer" | "log">,
): Sampler {
  const listener = createSampleSink({ ...sink, offer, log });
  return createSampler({ workerPath, hungAfterMs: HUNG_AFTER_MS, clock, log, listener });
}

/** What earlier agents left written; returns the handles. */
function takeUpRecords(records: NodeRecords, states: VolumeStates): string[] {
  const found = records.readAll();
  for (const record of found) states.set(record.handle, newVolumeState(record, true));
  return found.map(({ handle }) => handle);
}
