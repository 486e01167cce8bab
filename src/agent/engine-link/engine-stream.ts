// The agent's end of the fast path: a stream to one policy-engine, reopened without end. It carries samples and takes guidance; nothing
// that arrives here changes a filesystem. An engine that reads slowly gets the newest sample of each volume, not all.

import { readFile } from "node:fs/promises";
import {
  ChannelCredentials,
  type ChannelOptions,
  type ClientDuplexStream,
  connectivityState,
  Metadata,
  status,
} from "@grpc/grpc-js";
import {
  type AgentMessage,
  type EngineMessage,
  type Guidance,
  type Sample,
  SamplesClient,
} from "../../contracts/gen/tidemark/samples/v1/samples.ts";
import { ENGINE_CERTIFICATE_NAME } from "../../contracts/names.ts";
import { AGAIN_AFTER_MS, BACK_OFFS, backOffMs } from "../../platform/process/async/back-off.ts";
import { readClientCredentials } from "../../platform/process/certificates/shown-pair.ts";
import type { Effects } from "../../platform/process/effects/effects.ts";
import type { Logger } from "../../platform/process/log.ts";

export interface SampleStreamParts {
  /** "unix:///path" or "host:port". */
  readonly address: string;
  /** Read for each stream. */
  readonly link: ReadEngineLink;
  readonly nodeName: string;
  readonly highestEpoch: () => number;
  /** What a newly connected engine gets first. */
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

/** A stream that lived this long was a good one. */
const HEALTHY_STREAM_MS = 5000;
const KEEPALIVE = { "grpc.keepalive_time_ms": 10_000, "grpc.keepalive_timeout_ms": 5000 };
/** What will not be better in a moment: the engine took another stream for this node, or refused us by name. */
const LASTING_REFUSALS: readonly (status | undefined)[] = [
  status.ABORTED,
  status.PERMISSION_DENIED,
  status.UNAUTHENTICATED,
];

/** grpc-js writes when it tried, which makes each failure look new. */
const TIME_IN_REASON = /\(\d{4}-\d\d-\d\dT[^)]*\)/g;

type Stream = ClientDuplexStream<AgentMessage, EngineMessage>;

export function createSampleStream(parts: SampleStreamParts): SampleStream {
  return new EngineStream(parts);
}

class EngineStream implements SampleStream {
  readonly #parts: SampleStreamParts;
  readonly #unsent = new Map<string, Sample>();
  #client: SamplesClient | undefined;
  #stream: Stream | undefined;
  #writable = false;
  #openedMs = 0;
  #failures = 0;
  #lastReason: string | undefined;
  #retry: NodeJS.Timeout | undefined;
  #stopped = false;

  constructor(parts: SampleStreamParts) {
    this.#parts = parts;
    this.#openSafely();
  }

  offer(samples: readonly Sample[]): void {
    if (this.#stream === undefined) return; // a new stream begins with the newest of all
    for (const sample of samples) this.#unsent.set(sample.volumeHandle, sample);
    this.#flush();
  }

  connected(): boolean {
    if (this.#stream === undefined) return false;
    return this.#client?.getChannel().getConnectivityState(false) === connectivityState.READY;
  }

  stop(): void {
    this.#stopped = true;
    clearTimeout(this.#retry);
    this.#stream?.cancel();
    this.#client?.close();
  }

  #openSafely(): void {
    this.#open().catch((err: unknown) => this.#again(undefined, err));
  }

  async #open(): Promise<void> {
    const { address, link, effects, guided } = this.#parts;
    this.#openedMs = performance.now();
    const { credentials, options, metadata } = await link();
    if (this.#stopped) return;
    // A connection of its own each time: with the certificates of today.
    const connected = new SamplesClient(address, credentials, { ...KEEPALIVE, ...options });
    this.#client = connected;
    const opened = await effects.run("agent-samples/open-stream", async () => connected.stream(metadata));
    if (this.#stopped) return opened.cancel();
    this.#stream = opened;
    opened.on("data", (message: EngineMessage) => guided(message.guidance));
    opened.on("drain", () => {
      this.#writable = true;
      this.#flush();
    });
    opened.on("error", (err: unknown) => this.#again(opened, err));
    opened.on("end", () => this.#again(opened, undefined));
    this.#greet(opened);
  }

  /** Says who speaks, and the newest of each volume. */
  #greet(opened: Stream): void {
    const { nodeName, highestEpoch, newest } = this.#parts;
    const hello = { nodeName, highestEpoch: highestEpoch() };
    this.#writable = opened.write({ message: { $case: "hello", value: hello } });
    // What the stream before did not take is old by now.
    this.#unsent.clear();
    for (const sample of newest()) this.#unsent.set(sample.volumeHandle, sample);
    this.#flush();
  }

  #flush(): void {
    if (this.#stream === undefined || !this.#writable || this.#unsent.size === 0) return;
    const samples = [...this.#unsent.values()];
    this.#unsent.clear();
    this.#writable = this.#stream.write({ message: { $case: "batch", value: { samples } } });
  }

  #again(ended: Stream | undefined, err: unknown): void {
    if (this.#stopped || ended !== this.#stream) return;
    const { address, log } = this.#parts;
    const wasHealthy = this.#stream !== undefined && performance.now() - this.#openedMs > HEALTHY_STREAM_MS;
    if (wasHealthy) this.#lastReason = undefined;
    const reason = String(err).replace(TIME_IN_REASON, "");
    log[reason === this.#lastReason ? "debug" : "warn"](
      { engine: address, err },
      "no stream of samples; opening it again",
    );
    this.#lastReason = reason;
    this.#stream = undefined;
    this.#writable = false;
    this.#failures = wasHealthy ? 1 : this.#failures + 1;
    ended?.cancel();
    this.#client?.close();
    this.#client = undefined;
    const waitMs = isLasting(err) ? AGAIN_AFTER_MS.elsewhere : backOffMs(this.#failures, BACK_OFFS.peer, Math.random());
    this.#retry = setTimeout(() => this.#openSafely(), waitMs);
  }
}

function isLasting(err: unknown): boolean {
  const code = typeof err === "object" && err !== null && "code" in err ? err.code : undefined;
  return LASTING_REFUSALS.some((refusal) => refusal === code);
}

export interface EngineStreams {
  offer(samples: readonly Sample[]): void;
  /** How many engines hear us. */
  connected(): number;
  /** The engines now, in addition to the fixed ones. */
  follow(addresses: readonly string[]): void;
  stop(): void;
}

/**
 * A stream to each policy-engine: all get everything, since any of them may lead next. Some are at fixed addresses; those of a cluster come
 * and go.
 */
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

/**
 * How a stream reaches an engine: in the clear on this machine, or by mutual TLS with the agent's service account token. It is read again
 * for each stream, since kubelet renews it under us.
 */
export interface EngineLink {
  readonly credentials: ChannelCredentials;
  readonly options: ChannelOptions;
  readonly metadata: Metadata;
}

/** Rejects when what is to be shown is not there (yet). */
export type ReadEngineLink = () => Promise<EngineLink>;

/** For unix sockets and loopback. */
export const readPlainLink: ReadEngineLink = async () => ({
  credentials: ChannelCredentials.createInsecure(),
  options: {},
  metadata: new Metadata(),
});

/** `tlsDirectory` has ca.crt, tls.crt and tls.key. */
export function securedLink(tlsDirectory: string, tokenFile: string): ReadEngineLink {
  return async () => {
    const [credentials, token] = await Promise.all([readClientCredentials(tlsDirectory), readFile(tokenFile, "utf8")]);
    const metadata = new Metadata();
    metadata.set("authorization", `Bearer ${token.trim()}`);
    // Engines are called by address; what they must prove is their role.
    return { credentials, options: { "grpc.ssl_target_name_override": ENGINE_CERTIFICATE_NAME }, metadata };
  };
}
