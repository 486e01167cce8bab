// The accepting end of a TLS server of which anybody may ask for a handshake: connections get theirs in turns, since each takes the thread's time.
import { createServer, type Server, type Socket } from "node:net";
import type { Server as TlsServer } from "node:tls";
import { systemClock } from "../clock.ts";
import { createHandshakeLine } from "./handshake-line.ts";

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
