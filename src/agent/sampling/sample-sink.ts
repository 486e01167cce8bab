// What happens to each reading, in the sampling thread's own message: it is kept, it may spend a grant, it goes to the engines.
import type { Sample } from "../../gen/tidemark/samples/v1/samples.ts";
import type { Logger } from "../../process/log.ts";
import type { VolumeState, VolumeStates } from "../volumes/volume-state.ts";
import type { SamplerListener } from "./sampler.ts";

export interface SampleSinkParts {
  readonly states: VolumeStates;
  readonly sampleOf: (state: VolumeState) => Sample | undefined;
  readonly offer: (samples: readonly Sample[]) => void;
  readonly spendEmergency: (state: VolumeState) => void;
  /** Something worth reporting changed. */
  readonly changed: (handle: string) => void;
  readonly log: Logger;
}

export function createSampleSink({
  states,
  sampleOf,
  offer,
  spendEmergency,
  changed,
  log,
}: SampleSinkParts): SamplerListener {
  return {
    readings: (readings) => {
      const samples: Sample[] = [];
      for (const { handle, ...reading } of readings) {
        const state = states.get(handle);
        if (state === undefined) continue;
        if (state.reading === undefined) changed(handle); // it answers: now its size may be decided upon
        state.reading = reading;
        spendEmergency(state);
        const sample = sampleOf(state);
        if (sample !== undefined) samples.push(sample);
      }
      if (samples.length > 0) offer(samples);
    },
    unreadable: (handle, message) => log.warn({ volume: handle, message }, "the filesystem cannot be read"),
    hung: (handle, hung) => {
      const state = states.get(handle);
      if (state === undefined) return;
      state.hung = hung;
      changed(handle);
    },
  };
}
