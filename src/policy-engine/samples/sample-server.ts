// The engine's end of the agents' stream: takes samples in, hands guidance out. It decides nothing; each message goes to `onSamples`.
// A node has one stream: a newer one ends the older, and nothing that the older still brings is taken.
import { type ServerDuplexStream, status } from "@grpc/grpc-js";
import {
  type AgentMessage,
  EngineMessage,
  type Guidance,
  type Hello,
  type Sample,
  SamplesService,
} from "../../contracts/gen/tidemark/samples/v1/samples.ts";
import type { GrpcService } from "../../platform/process/grpc.ts";
import type { Logger } from "../../platform/process/log.ts";
import type { Admit } from "./sample-listener.ts";

export interface SampleServerEvents {
  /** An agent has said which node it speaks for, and the highest epoch on its disk. */
  readonly onHello: (nodeName: string, highestEpoch: number) => void;
  readonly onSamples: (nodeName: string, samples: readonly Sample[]) => void;
  readonly onGone: (nodeName: string) => void;
}

export interface SampleServer extends GrpcService {
  /** Sends guidance to the node's agent. False: it is not connected, or reads too slowly, and got nothing. */
  guide(nodeName: string, guidance: Guidance): boolean;
}

/** More unsent guidance than this to one agent is dropped: a stuck reader must not fill our memory. */
const UNSENT_LIMIT_BYTES = 1 << 20;

type Call = ServerDuplexStream<AgentMessage, EngineMessage>;

/** What `listen` needs: who speaks on each node's behalf right now. */
interface Listening {
  readonly streams: Map<string, Call>;
  readonly events: SampleServerEvents;
  readonly log: Logger;
}

export function createSampleServer(events: SampleServerEvents, admit: Admit, log: Logger): SampleServer {
  const listening: Listening = { streams: new Map(), events, log };
  const stream = (call: Call): void => {
    call.on("error", () => {}); // it ends all the same, before it was admitted too
    admit(call.metadata).then(
      (admission) => {
        if (call.cancelled) return;
        if (admission.admitted) listen(listening, call, admission.nodeName);
        else refuse(log, call, admission.code, admission.reason);
      },
      (err: unknown) => {
        log.error({ err, peer: call.getPeer() }, "an agent's stream could not be judged: this is a bug");
        refuse(log, call, status.INTERNAL, "the engine failed to judge the stream");
      },
    );
  };
  return {
    definition: SamplesService,
    implementation: { stream },
    guide: (nodeName, guidance) => {
      const call = listening.streams.get(nodeName);
      if (call === undefined || call.writableLength >= UNSENT_LIMIT_BYTES) return false;
      call.write(EngineMessage.fromPartial({ guidance: [guidance] }));
      return true;
    },
  };
}

/** `admittedNode` is the only node that the stream may speak for; undefined: its hello is believed. */
function listen({ streams, events, log }: Listening, call: Call, admittedNode: string | undefined): void {
  let nodeName: string | undefined;
  const speaks = (): boolean => nodeName !== undefined && streams.get(nodeName) === call;
  const leave = (): void => {
    if (nodeName === undefined || !speaks()) return;
    streams.delete(nodeName);
    events.onGone(nodeName);
  };
  const greet = (hello: Hello): void => {
    const problem = helloProblem(hello, nodeName, admittedNode);
    if (problem !== undefined) {
      leave();
      return refuse(log, call, status.PERMISSION_DENIED, problem);
    }
    nodeName = hello.nodeName;
    const older = streams.get(nodeName);
    streams.set(nodeName, call);
    if (older !== undefined && older !== call)
      refuse(log, older, status.ABORTED, `a newer stream speaks for node "${nodeName}"`);
    events.onHello(nodeName, hello.highestEpoch);
  };
  call.on("data", ({ message }: AgentMessage) => {
    if (message?.$case === "hello") greet(message.value);
    else if (message?.$case === "batch" && nodeName !== undefined && speaks())
      events.onSamples(nodeName, message.value.samples);
  });
  call.on("end", () => {
    leave();
    call.end();
  });
  call.on("error", leave);
  call.on("close", leave);
  call.on("cancelled", leave);
}

function helloProblem(
  { nodeName }: Hello,
  before: string | undefined,
  admittedNode: string | undefined,
): string | undefined {
  if (nodeName === "") return "the agent does not say which node it speaks for";
  if (before !== undefined && nodeName !== before)
    return `the stream spoke for node "${before}", now for "${nodeName}"`;
  if (admittedNode === undefined || admittedNode === nodeName) return undefined;
  return `the agent's token is one of node "${admittedNode}": it may not speak for node "${nodeName}"`;
}

/** Ends the stream with a status; the agent logs the same reason. */
function refuse(log: Logger, call: Call, code: status, reason: string): void {
  log.warn({ peer: call.getPeer(), code: status[code], reason }, "an agent's stream was refused or ended");
  call.emit("error", { code, details: reason });
}

// Which samples of an agent's stream are checked: those of its own node's volumes, and no more a second than an agent ever takes. An agent
// may be broken, or its token stolen: what it says of its own volumes is judged by the decision, and refuted by the filesystem itself.

interface SampleIntake {
  /** Those that count. Warns once for each stream of what it leaves out, by the names of node and volume. */
  take(nodeName: string, batch: readonly Sample[], monotonicMs: number): Sample[];
  /** A stream has begun or ended: what was counted is forgotten. */
  forget(nodeName: string): void;
}

/** An agent samples each filesystem every 25 ms at most; a network that held them up may deliver seconds of them at once. */
const SAMPLES_PER_SECOND = 200;
const WINDOW_MS = 1000;
/** A volume that has just gone to another node is still sampled for a moment. */
const FOREIGN_LIMIT = 20;

interface Counted {
  foreign: number;
  isFloodSaid: boolean;
  windowBeganMs: number;
  /** In the window, by volume; of the node's own alone, of which there are as many as there are layouts. */
  readonly inWindow: Map<string, number>;
}

/** `nodeOf`: the node whose agent may speak for a volume; undefined: there is none. */
export function createSampleIntake(nodeOf: (handle: string) => string | undefined, log: Logger): SampleIntake {
  // As many as there are streams.
  const counted = new Map<string, Counted>();
  const countedOf = (nodeName: string, monotonicMs: number): Counted => {
    const counts = counted.get(nodeName) ?? {
      ...{ foreign: 0, isFloodSaid: false, windowBeganMs: monotonicMs },
      inWindow: new Map<string, number>(),
    };
    counted.set(nodeName, counts);
    if (monotonicMs - counts.windowBeganMs >= WINDOW_MS) {
      counts.windowBeganMs = monotonicMs;
      counts.inWindow.clear();
    }
    return counts;
  };
  const isOwn = (nodeName: string, counts: Counted, volume: string): boolean => {
    const owner = nodeOf(volume);
    if (owner === nodeName) return true;
    counts.foreign += 1;
    if (counts.foreign === FOREIGN_LIMIT)
      log.warn(
        { nodeName, volume, owner },
        `Look at the agent of node ${nodeName}: it sends samples of ${volume}, which is not on that node. They are left out`,
      );
    return false;
  };
  const isWithinRate = (nodeName: string, counts: Counted, volume: string): boolean => {
    const before = counts.inWindow.get(volume) ?? 0;
    counts.inWindow.set(volume, before + 1);
    if (before < SAMPLES_PER_SECOND) return true;
    if (!counts.isFloodSaid)
      log.warn(
        { nodeName, volume },
        `Look at the agent of node ${nodeName}: it sends more than ${SAMPLES_PER_SECOND} samples of ${volume} a second. The rest is left out`,
      );
    counts.isFloodSaid = true;
    return false;
  };
  return {
    take: (nodeName, batch, monotonicMs) => {
      const counts = countedOf(nodeName, monotonicMs);
      return batch.filter(
        ({ volumeHandle }) => isOwn(nodeName, counts, volumeHandle) && isWithinRate(nodeName, counts, volumeHandle),
      );
    },
    forget: (nodeName) => {
      counted.delete(nodeName);
    },
  };
}
