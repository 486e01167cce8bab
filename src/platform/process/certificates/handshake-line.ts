// The handshakes of a TLS server take its thread's time, and any client that reaches the port may ask for one. So few run at once and few
// start in one turn of the event loop. The others wait in a line: the address with the fewest goes first.
import { createServer, type Server, type Socket } from "node:net";
import type { Server as TlsServer } from "node:tls";
import { systemClock } from "../clock.ts";
import { keyOf } from "../http/client-limits.ts";

interface HandshakeLine {
  /** A new connection. Its turn does not come before its peer has said something. */
  add(socket: Socket): void;
  /** Its handshake has ended, well or not. */
  ended(socket: Pick<Socket, "remoteAddress" | "remotePort">): void;
}

interface HandshakeLineOptions {
  /** Has the handshake done; what the peer has said is still to be read. */
  readonly begin: (socket: Socket) => void;
  /** The peer has said something. */
  readonly heard: (socket: Socket) => void;
  readonly monotonicMs: () => number;
}

/** Of one connection, in the line or under way. */
export interface Turn {
  readonly address: string;
  /** When it came into the line, or when its handshake began. */
  readonly sinceMs: number;
}

export const UNDER_WAY_LIMIT = 32;
/** Then the next turn decides again. */
const BEGUN_IN_ONE_TURN = 8;
/** In a cluster a handshake takes milliseconds: by then the other end has left. While no other waits it may go on. */
export const STUCK_AFTER_MS = 2000;
/** Of a peer that says nothing. */
const SILENCE_LIMIT_MS = 10_000;

export function createHandshakeLine({ begin, heard, monotonicMs }: HandshakeLineOptions): HandshakeLine {
  const waiting = new Map<string, Turn & { readonly socket: Socket }>();
  const underWay = new Map<string, Turn & { readonly socket: Socket }>();
  let isAsked = false;

  const look = (afterMs = 0): void => {
    if (isAsked || waiting.size === 0) return;
    isAsked = true;
    const looked = (): void => {
      isAsked = false;
      beginSome();
    };
    if (afterMs === 0) setImmediate(looked);
    else setTimeout(looked, afterMs).unref();
  };
  const beginSome = (): void => {
    for (let begun = 0; begun < BEGUN_IN_ONE_TURN; begun += 1) {
      const turn = nextTurn([...waiting.entries()], [...underWay.entries()], monotonicMs());
      // Whichever ends first, or is stuck by then, makes room.
      if (turn === undefined) return look(STUCK_AFTER_MS / 20);
      if (turn.close !== undefined) {
        underWay.get(turn.close)?.socket.destroy();
        underWay.delete(turn.close);
      }
      const next = waiting.get(turn.begin);
      waiting.delete(turn.begin);
      if (next === undefined || next.socket.destroyed) continue;
      underWay.set(turn.begin, { ...next, sinceMs: monotonicMs() });
      begin(next.socket);
    }
    look();
  };
  const gone = (key: string): void => {
    waiting.delete(key);
    underWay.delete(key);
  };
  return {
    add: (socket) => {
      const key = keyOf(socket);
      if (key === undefined) return void socket.destroy();
      const silent = (): void => void socket.destroy();
      socket.setTimeout(SILENCE_LIMIT_MS, silent);
      // Its end follows as "close"; unheard, an error would end the process.
      socket.on("error", () => {}).once("close", () => gone(key));
      socket.once("readable", () => {
        socket.setTimeout(0).off("timeout", silent);
        if (socket.destroyed) return;
        heard(socket);
        waiting.set(key, { socket, address: socket.remoteAddress ?? "", sinceMs: monotonicMs() });
        look();
      });
    },
    ended: (socket) => underWay.delete(keyOf(socket) ?? ""),
  };
}

type Entry = readonly [key: string, turn: Turn];

/**
 * Whose handshake begins, and whose is given up for it where there are too many. The address with the fewest under way goes first, then the
 * one with the fewest waiting. The one given up is the oldest of the address with the most, where that has two more; otherwise a stuck one.
 * Undefined: neither, for now.
 */
export function nextTurn(
  waiting: readonly Entry[],
  underWay: readonly Entry[],
  nowMs: number,
): { readonly begin: string; readonly close?: string } | undefined {
  const [busy, queued] = [countsOf(underWay), countsOf(waiting)];
  const count = (counts: ReadonlyMap<string, number>, { address }: Turn): number => counts.get(address) ?? 0;
  const [first] = waiting;
  if (first === undefined) return undefined;
  const [begin, next] = waiting.reduce((best, one) => {
    const less = count(busy, one[1]) - count(busy, best[1]) || count(queued, one[1]) - count(queued, best[1]);
    return less < 0 ? one : best;
  }, first);
  if (underWay.length < UNDER_WAY_LIMIT) return { begin };
  const most = Math.max(...busy.values());
  const ofMost = underWay.find(([, turn]) => count(busy, turn) === most);
  const close =
    most > count(busy, next) + 1 ? ofMost : underWay.find(([, { sinceMs }]) => nowMs - sinceMs >= STUCK_AFTER_MS);
  return close === undefined ? undefined : { begin, close: close[0] };
}

function countsOf(entries: readonly Entry[]): Map<string, number> {
  const counts = new Map<string, number>();
  for (const [, { address }] of entries) counts.set(address, (counts.get(address) ?? 0) + 1);
  return counts;
}

/** The accepting end of a TLS server: each connection gets its handshake in its turn. */
export interface TurnedConnections {
  /** What listens. `secure` itself does not. */
  readonly accepting: Server;
  /** Ends all connections, too: a server that does not listen itself knows of none. */
  close(): Promise<void>;
}

export function acceptInTurns(secure: TlsServer): TurnedConnections {
  const sockets = new Set<Socket>();
  const line = createHandshakeLine({
    begin: (socket) => secure.emit("connection", socket),
    heard: () => {},
    monotonicMs: () => systemClock.monotonicMs(),
  });
  secure.on("secureConnection", (connection) => line.ended(connection));
  secure.on("tlsClientError", (_error, connection) => line.ended(connection));
  const accepting = createServer({ pauseOnConnect: true }, (socket) => {
    sockets.add(socket);
    socket.once("close", () => sockets.delete(socket));
    line.add(socket);
  });
  return {
    accepting,
    close: () =>
      new Promise((resolve) => {
        accepting.close(() => resolve());
        for (const socket of sockets) socket.destroy();
      }),
  };
}
