// The engine's end of the agents' stream: takes samples in, hands guidance out. It decides nothing; each message goes to `onSamples`.
import type { ServerDuplexStream } from "@grpc/grpc-js";
import {
  type AgentMessage,
  EngineMessage,
  type Guidance,
  type Sample,
  SamplesService,
} from "../../gen/tidemark/samples/v1/samples.ts";
import type { GrpcService } from "../../process/grpc.ts";

export interface SampleServerEvents {
  /** An agent has said which node it speaks for, and the highest epoch on its disk. */
  readonly onHello: (nodeName: string, highestEpoch: number) => void;
  readonly onSamples: (nodeName: string, samples: readonly Sample[]) => void;
  readonly onGone: (nodeName: string) => void;
}

export interface SampleServer extends GrpcService {
  /** Sends guidance to the node's agent; dropped when it is not connected (it is sent again with its next samples). */
  guide(nodeName: string, guidance: Guidance): void;
}

/** More unsent guidance than this to one agent is dropped: a stuck reader must not fill our memory. */
const UNSENT_LIMIT_BYTES = 1 << 20;

export function createSampleServer(events: SampleServerEvents): SampleServer {
  const streams = new Map<string, ServerDuplexStream<AgentMessage, EngineMessage>>();
  const stream = (call: ServerDuplexStream<AgentMessage, EngineMessage>): void => {
    let nodeName: string | undefined;
    const leave = (): void => {
      if (nodeName === undefined || streams.get(nodeName) !== call) return;
      streams.delete(nodeName);
      events.onGone(nodeName);
    };
    call.on("data", ({ message }: AgentMessage) => {
      if (message?.$case === "hello") {
        nodeName = message.value.nodeName;
        streams.set(nodeName, call);
        events.onHello(nodeName, message.value.highestEpoch);
      } else if (message?.$case === "batch" && nodeName !== undefined) {
        events.onSamples(nodeName, message.value.samples);
      }
    });
    call.on("end", () => {
      leave();
      call.end();
    });
    call.on("error", leave);
    call.on("close", leave);
  };
  return {
    definition: SamplesService,
    implementation: { stream },
    guide: (nodeName, guidance) => {
      const call = streams.get(nodeName);
      if (call !== undefined && call.writableLength < UNSENT_LIMIT_BYTES) {
        call.write(EngineMessage.fromPartial({ guidance: [guidance] }));
      }
    },
  };
}
