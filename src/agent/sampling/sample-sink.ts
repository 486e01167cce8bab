// What happens to each reading, in the handler of the sampling thread's message: it is stored, it may spend a grant, it goes to the
// engines.
import type { Sample } from "../../contracts/gen/tidemark/samples/v1/samples.ts";
import type { Logger } from "../../platform/process/log.ts";
import type { NodeVolume, VolumesByHandle } from "../volumes/node-volume.ts";
import type { NodeVolumeState } from "../volumes/volume-state.ts";
import type { SamplerListener } from "./sampler.ts";

export interface SampleSinkParts {
  readonly volumes: VolumesByHandle;
  readonly sampleOf: (state: NodeVolumeState) => Sample | undefined;
  readonly offer: (samples: readonly Sample[]) => void;
  readonly spendEmergency: (volume: NodeVolume) => void;
  /** Something worth reporting changed. */
  readonly changed: (handle: string) => void;
  readonly log: Logger;
}

export function createSampleSink({
  volumes,
  sampleOf,
  offer,
  spendEmergency,
  changed,
  log,
}: SampleSinkParts): SamplerListener {
  return {
    readings: (readings) => {
      const samples: Sample[] = [];
      for (const { handle, reading } of readings) {
        const volume = volumes.get(handle);
        if (volume === undefined) continue;
        if (volume.state.reading === undefined) changed(handle); // it answers: now its size may be decided upon
        volume.dispatch({ type: "ReadingArrived", reading });
        spendEmergency(volume);
        const sample = sampleOf(volume.state);
        if (sample !== undefined) samples.push(sample);
      }
      if (samples.length > 0) offer(samples);
    },
    unreadable: (handle, message) => log.warn({ volume: handle, message }, "the filesystem cannot be read"),
    hung: (handle, hung) => {
      const volume = volumes.get(handle);
      if (volume === undefined) return;
      volume.dispatch({ type: hung ? "Hung" : "Answered" });
      changed(handle);
    },
  };
}
