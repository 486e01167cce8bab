// A stream to each policy-engine: all get everything, since any of them may lead next. Some are at fixed addresses; those of a
// cluster come and go.
import type { Sample } from "../../gen/tidemark/samples/v1/samples.ts";
import { createSampleStream, type SampleStream, type SampleStreamParts } from "./engine-stream.ts";

export interface EngineStreams {
  offer(samples: readonly Sample[]): void;
  /** How many engines hear us. */
  connected(): number;
  /** Beside the fixed ones, these are the engines now. */
  follow(addresses: readonly string[]): void;
  stop(): void;
}

export function openEngineStreams(fixed: readonly string[], parts: Omit<SampleStreamParts, "address">): EngineStreams {
  const streams = new Map<string, SampleStream>();
  let stopped = false;

  const follow = (addresses: readonly string[]): void => {
    if (stopped) return;
    const wanted = new Set([...fixed, ...addresses]);
    for (const [address, stream] of streams) {
      if (wanted.has(address)) continue;
      stream.stop();
      streams.delete(address);
    }
    for (const address of wanted)
      if (!streams.has(address)) streams.set(address, createSampleStream({ ...parts, address }));
  };
  follow([]);
  return {
    offer: (samples) => {
      for (const stream of streams.values()) stream.offer(samples);
    },
    connected: () => [...streams.values()].filter((stream) => stream.connected()).length,
    follow,
    stop: () => {
      stopped = true;
      for (const stream of streams.values()) stream.stop();
    },
  };
}
