// All that is sampled on this node: our own volumes, and claims of other drivers, each with threads of their own. It decides nothing.
import type { Guidance, Sample } from "../../contracts/gen/tidemark/samples/v1/samples.ts";
import type { Stoppable } from "../../platform/process/shutdown.ts";
import { type ClaimMeasurer, type ClaimMeasurerParts, createClaimMeasurer } from "../ordinary-claims/claim-measurer.ts";
import { isRecent, startNodeMeasurer, wireSample } from "../sampling/node-measures.ts";
import { createSampleSink, type SampleSinkParts } from "../sampling/sample-sink.ts";
import { createSampler, type Sampler } from "../sampling/sampler.ts";
import type { ThreadedMountReader } from "../storage/filesystem/threaded-mount-reader.ts";
import type { FreeSpace } from "../storage/storage.ts";
import type { NodeVolumeState } from "./volume-state.ts";

/** `layouts`: those of claims. */
export interface NodeSamplingParts extends ClaimMeasurerParts, Omit<SampleSinkParts, "sampleOf"> {
  readonly storage: FreeSpace;
  /** What reads mounts for the storage's operations; undefined: nothing is mounted. */
  readonly mounts: Pick<ThreadedMountReader, "strandedThreads" | "unhealthy"> | undefined;
}

export interface NodeSampling {
  readonly sampler: Sampler;
  readonly claims: ClaimMeasurer;
  /** Undefined while mounted filesystems can be read, by the sampler and by operations. */
  unhealthy(): string | undefined;
  /** Threads that hang in the kernel, on whosever filesystems. */
  strandedThreads(): number;
  /** The newest of all volumes. */
  samples(): Sample[];
  guided(guidance: readonly Guidance[]): void;
  readonly stoppables: readonly Stoppable[];
}

/** A read takes microseconds, and milliseconds on a machine that has no time; this long it takes only in a hung kernel. */
const OWN_HUNG_AFTER_MS = 250;

export function startNodeSampling(parts: NodeSamplingParts): NodeSampling {
  const { storage, mounts, volumes, samplerWorkerPath: workerPath, clock, log } = parts;
  const measurer = startNodeMeasurer(storage, volumes, clock, log);
  const sampleOf = (state: NodeVolumeState): Sample | undefined => wireSample(state, measurer.of(state));
  const listener = createSampleSink({ ...parts, sampleOf });
  const sampler = createSampler({ workerPath, hungAfterMs: OWN_HUNG_AFTER_MS, clock, log, listener });
  const claims = createClaimMeasurer(parts);
  return {
    sampler,
    claims,
    unhealthy: () => sampler.unhealthy() ?? mounts?.unhealthy(),
    strandedThreads: () => sampler.strandedThreads() + claims.strandedThreads() + (mounts?.strandedThreads() ?? 0),
    samples: () => {
      const recent = [...volumes.values()].filter(({ state }) => isRecent(state.reading, clock.monotonicMs()));
      return [...recent.flatMap(({ state }) => sampleOf(state) ?? []), ...claims.samples()];
    },
    guided: (guidance) => {
      for (const { volumeHandle, nextExtendUsedBytes } of guidance)
        (volumes.has(volumeHandle) ? sampler : claims).setNextExtend(volumeHandle, nextExtendUsedBytes);
    },
    stoppables: [
      { name: "sampling", stop: () => sampler.stop() },
      { name: "sampling of claims", stop: () => claims.stop() },
      { name: "measures", stop: () => measurer.stop() },
    ],
  };
}
