// The fast path's agent end: one stream to each policy-engine, opened again for ever. It carries samples and takes guidance;
// nothing that arrives here changes a filesystem. An engine that reads slowly gets the newest sample of each volume, not all.
import { ChannelCredentials, type ClientDuplexStream, connectivityState } from "@grpc/grpc-js";
import {
  type AgentMessage,
  type EngineMessage,
  type Guidance,
  type Sample,
  SamplesClient,
} from "../gen/tidemark/samples/v1/samples.ts";
import { type BackOff, backOffMs } from "../kube/back-off.ts";
import type { Effects } from "../process/effects.ts";
import type { Logger } from "../process/log.ts";

export interface SampleStreamParts {
  /** "unix:///path" or "host:port". */
  readonly address: string;
  readonly nodeName: string;
  readonly highestEpoch: () => number;
  /** What a newly connected engine is told first. */
  readonly newest: () => Sample[];
  readonly guided: (guidance: readonly Guidance[]) => void;
  readonly effects: Effects;
  readonly log: Logger;
}

export interface SampleStream {
  /** Sent now, or when the engine has read what it was sent before. Never waits, never throws. */
  offer(samples: readonly Sample[]): void;
  connected(): boolean;
  stop(): void;
}

const BACK_OFF: BackOff = { baseMs: 100, capMs: 5000 };
/** A stream that lived this long was a good one. */
const HEALTHY_STREAM_MS = 5000;
const KEEPALIVE = { "grpc.keepalive_time_ms": 10_000, "grpc.keepalive_timeout_ms": 5000 };
/** grpc-js' own reconnecting is kept short: opening again is ours. */
const CHANNEL = { ...KEEPALIVE, "grpc.initial_reconnect_backoff_ms": 100, "grpc.max_reconnect_backoff_ms": 5000 };

type Stream = ClientDuplexStream<AgentMessage, EngineMessage>;

export function createSampleStream(parts: SampleStreamParts): SampleStream {
  const { address, log, guided } = parts;
  const client = new SamplesClient(address, ChannelCredentials.createInsecure(), CHANNEL);
  const unsent = new Map<string, Sample>();
  let stream: Stream | undefined;
  let writable = false;
  let openedMs = 0;
  let failures = 0;
  let retry: NodeJS.Timeout | undefined;
  let stopped = false;

  const flush = (): void => {
    if (stream === undefined || !writable || unsent.size === 0) return;
    const samples = [...unsent.values()];
    unsent.clear();
    writable = stream.write({ message: { $case: "batch", value: { samples } } });
  };
  const open = async (): Promise<void> => {
    const opened = await parts.effects.run("agent-samples/open-stream", async () => client.stream());
    if (stopped) return opened.cancel();
    stream = opened;
    openedMs = performance.now();
    opened.on("data", (message: EngineMessage) => guided(message.guidance));
    opened.on("drain", () => {
      writable = true;
      flush();
    });
    opened.on("error", (err: unknown) => again(opened, err));
    opened.on("end", () => again(opened, undefined));
    const hello = { nodeName: parts.nodeName, highestEpoch: parts.highestEpoch() };
    writable = opened.write({ message: { $case: "hello", value: hello } });
    for (const sample of parts.newest()) unsent.set(sample.volumeHandle, sample);
    flush();
  };
  const again = (ended: Stream, err: unknown): void => {
    if (stopped || ended !== stream) return;
    log[failures === 0 ? "warn" : "debug"]({ engine: address, err }, "the stream of samples ended; opening it again");
    stream = undefined;
    writable = false;
    failures = performance.now() - openedMs > HEALTHY_STREAM_MS ? 1 : failures + 1;
    ended.cancel();
    retry = setTimeout(openSafely, backOffMs(failures, BACK_OFF, Math.random()));
  };
  const openSafely = (): void => {
    open().catch((err: unknown) => log.error({ engine: address, err }, "the stream of samples could not be opened"));
  };

  openSafely();
  return {
    offer: (samples) => {
      if (stream === undefined) return; // a new stream begins with the newest of all
      for (const sample of samples) unsent.set(sample.volumeHandle, sample);
      flush();
    },
    connected: () =>
      stream !== undefined && client.getChannel().getConnectivityState(false) === connectivityState.READY,
    stop: () => {
      stopped = true;
      clearTimeout(retry);
      stream?.cancel();
      client.close();
    },
  };
}

/** One stream to each engine: all get everything, since any of them may lead next. */
export function openSampleStreams(
  addresses: readonly string[],
  parts: Omit<SampleStreamParts, "address">,
): { offer(samples: readonly Sample[]): void; connected(): number; stop(): void } {
  const streams = addresses.map((address) => createSampleStream({ ...parts, address }));
  return {
    offer: (samples) => {
      for (const stream of streams) stream.offer(samples);
    },
    connected: () => streams.filter((stream) => stream.connected()).length,
    stop: () => {
      for (const stream of streams) stream.stop();
    },
  };
}
