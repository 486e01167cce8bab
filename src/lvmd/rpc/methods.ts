// The methods of lvmd, unary and streaming. Of a unary one a refusal or a failure becomes a gRPC status, and is logged once.
import type { handleUnaryCall, ServerWritableStream, ServiceDefinition } from "@grpc/grpc-js";
import { Refusal } from "../../contracts/csi/refusal.ts";
import { type Serving, unaryMethod } from "../../platform/csi/unary-method.ts";

/** Bound to a process' serving; `name` is the method's in the log and in metrics. */
export type LvmdMethod = <Request extends object, Response>(
  name: string,
  answer: (request: Request) => Promise<Response>,
) => handleUnaryCall<Request, Response>;

export function lvmdMethods(serving: Serving): LvmdMethod {
  return (name, answer) =>
    unaryMethod(serving, name, async (request) => {
      refuseUnreadable(request);
      return answer(request);
    });
}

// Numbers beyond 2^53 fit no volume: INVALID_ARGUMENT, not gRPC's INTERNAL for bytes that it cannot read.

/** In a request's place: why it could not be read. */
const UNREADABLE = Symbol("unreadable");

/** The definition with requests that are always there; `refuseUnreadable` refuses the bad ones. */
export function readableRequests<Definition extends ServiceDefinition>(definition: Definition): Definition {
  const methods = Object.entries(definition).map(([name, method]) => {
    const requestDeserialize = (bytes: Buffer): unknown => {
      try {
        return method.requestDeserialize(bytes);
      } catch (error) {
        return { [UNREADABLE]: (error as Error).message };
      }
    };
    return [name, { ...method, requestDeserialize }];
  });
  return Object.fromEntries(methods) as Definition;
}

function refuseUnreadable(request: object): void {
  const problem = (request as { readonly [UNREADABLE]?: string })[UNREADABLE];
  if (problem !== undefined) throw new Refusal("INVALID_ARGUMENT", `the request cannot be read: ${problem}`);
}

// A server stream of states of which only the newest counts: a client that does not read costs one message, not all of them.

export interface NewestStreams<Message> {
  /** The newest state at once, and again after each change. */
  open(call: ServerWritableStream<object, Message>): void;
  /** Something may have changed: all that is new is sent. */
  changed(): void;
}

/** `state` undefined: there is none yet. `same` messages are not sent again. */
export function createNewestStreams<Message>(
  state: () => Message | undefined,
  same: (one: Message, other: Message) => boolean,
): NewestStreams<Message> {
  const sends = new Set<() => void>();
  return {
    open: (call) => {
      let sent: Message | undefined;
      let full = false;
      const send = (): void => {
        const newest = state();
        if (full || newest === undefined || (sent !== undefined && same(sent, newest))) return;
        sent = newest;
        full = !call.write(newest);
      };
      const close = (): void => {
        sends.delete(send);
      };
      call.on("drain", () => {
        full = false;
        send();
      });
      call.on("cancelled", () => {
        close();
        call.end();
      });
      call.on("error", close);
      call.on("close", close);
      sends.add(send);
      send();
    },
    changed: () => {
      for (const send of sends) send();
    },
  };
}
