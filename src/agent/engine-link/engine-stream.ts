// The fast path's agent end: a stream to one policy-engine, opened again for ever. It carries samples and takes guidance;
// nothing that arrives here changes a filesystem. An engine that reads slowly gets the newest sample of each volume, not all.
import { type ClientDuplexStream, connectivityState, status } from "@grpc/grpc-js";
import {
  type AgentMessage,
  type EngineMessage,
  type Guidance,
  type Sample,
  SamplesClient,
} from "../../gen/tidemark/samples/v1/samples.ts";
import { type BackOff, backOffMs } from "../../kube/queue/back-off.ts";
import type { Effects } from "../../process/effects.ts";
import type { Logger } from "../../process/log.ts";
import type { ReadEngineLink } from "./engine-link.ts";

export interface SampleStreamParts {
  /** "unix:///path" or "host:port". */
  readonly address: string;
  /** Read for each stream. */
  readonly link: ReadEngineLink;
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
/** What will not be better in a moment: the engine took another stream for this node, or refused us by name. */
const LASTING_REFUSALS: readonly (status | undefined)[] = [
  status.ABORTED,
  status.PERMISSION_DENIED,
  status.UNAUTHENTICATED,
];
const REFUSED_WAIT_MS = 30_000;

/** grpc-js writes when it tried, which makes each failure look new. */
const TIME_IN_REASON = /\(\d{4}-\d\d-\d\dT[^)]*\)/g;

type Stream = ClientDuplexStream<AgentMessage, EngineMessage>;

export function createSampleStream(parts: SampleStreamParts): SampleStream {
  const { address, log, guided } = parts;
  const unsent = new Map<string, Sample>();
  let client: SamplesClient | undefined;
  let stream: Stream | undefined;
  let writable = false;
  let openedMs = 0;
  let failures = 0;
  let lastReason: string | undefined;
  let retry: NodeJS.Timeout | undefined;
  let stopped = false;

  const flush = (): void => {
    if (stream === undefined || !writable || unsent.size === 0) return;
    const samples = [...unsent.values()];
    unsent.clear();
    writable = stream.write({ message: { $case: "batch", value: { samples } } });
  };
  const open = async (): Promise<void> => {
    openedMs = performance.now();
    const { credentials, options, metadata } = await parts.link();
    if (stopped) return;
    // A connection of its own each time: with the certificates of today.
    const connected = new SamplesClient(address, credentials, { ...KEEPALIVE, ...options });
    client = connected;
    const opened = await parts.effects.run("agent-samples/open-stream", async () => connected.stream(metadata));
    if (stopped) return opened.cancel();
    stream = opened;
    opened.on("data", (message: EngineMessage) => guided(message.guidance));
    opened.on("drain", () => {
      writable = true;
      flush();
    });
    opened.on("error", (err: unknown) => again(opened, err));
    opened.on("end", () => again(opened, undefined));
    const hello = { nodeName: parts.nodeName, highestEpoch: parts.highestEpoch() };
    writable = opened.write({ message: { $case: "hello", value: hello } });
    // What the stream before did not take is old by now.
    unsent.clear();
    for (const sample of parts.newest()) unsent.set(sample.volumeHandle, sample);
    flush();
  };
  const again = (ended: Stream | undefined, err: unknown): void => {
    if (stopped || ended !== stream) return;
    const wasHealthy = stream !== undefined && performance.now() - openedMs > HEALTHY_STREAM_MS;
    if (wasHealthy) lastReason = undefined;
    const reason = String(err).replace(TIME_IN_REASON, "");
    log[reason === lastReason ? "debug" : "warn"]({ engine: address, err }, "no stream of samples; opening it again");
    lastReason = reason;
    stream = undefined;
    writable = false;
    failures = wasHealthy ? 1 : failures + 1;
    ended?.cancel();
    client?.close();
    client = undefined;
    retry = setTimeout(openSafely, isLasting(err) ? REFUSED_WAIT_MS : backOffMs(failures, BACK_OFF, Math.random()));
  };
  const openSafely = (): void => {
    open().catch((err: unknown) => again(undefined, err));
  };

  openSafely();
  return {
    offer: (samples) => {
      if (stream === undefined) return; // a new stream begins with the newest of all
      for (const sample of samples) unsent.set(sample.volumeHandle, sample);
      flush();
    },
    connected: () =>
      stream !== undefined && client?.getChannel().getConnectivityState(false) === connectivityState.READY,
    stop: () => {
      stopped = true;
      clearTimeout(retry);
      stream?.cancel();
      client?.close();
    },
  };
}

function isLasting(err: unknown): boolean {
  const code = typeof err === "object" && err !== null && "code" in err ? err.code : undefined;
  return LASTING_REFUSALS.some((refusal) => refusal === code);
}
