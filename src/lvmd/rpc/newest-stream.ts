// A server stream of states of which only the newest counts: a client that does not read costs one message, not all of them.
import type { ServerWritableStream } from "@grpc/grpc-js";

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
