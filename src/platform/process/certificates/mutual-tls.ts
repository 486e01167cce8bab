// The server's side of mutual TLS: a port at which only holders of a certificate of our CAs are let in. Certificates are replaced
// while it listens: new connections get the new ones, established ones go on. No peer keeps the others out. It knows
// nothing of what is spoken inside.

import { constants } from "node:crypto";
import { type AddressInfo, createServer as createAcceptingServer } from "node:net";
import { createServer, type TLSSocket } from "node:tls";
import { systemClock } from "../clock.ts";
import type { Address } from "../flags.ts";
import { createConnectionLimit } from "../http/client-limits.ts";
import type { Logger } from "../log.ts";
import { createHandshakeLine } from "./handshake-line.ts";
import type { StoredPair } from "./key-pair.ts";
import { showPair } from "./shown-pair.ts";

export interface MutualTls {
  /** Throws, and goes on with what it has, when these cannot be used. Before the first, every handshake fails. */
  replace(pair: StoredPair): void;
  /** Port 0 takes any free one. `accepted` gets each connection whose certificate is good. */
  listen(address: Address, accepted: (connection: TLSSocket) => void): Promise<number>;
  /** No more connections; those that there are go on. */
  close(): void;
}

/** A resumed session would show no certificate, and count as authorized after the one that it began with has expired: no tickets. */
const TLS_OPTIONS = {
  minVersion: "TLSv1.3",
  ALPNProtocols: ["h2"],
  secureOptions: constants.SSL_OP_NO_TICKET,
} as const;
const HANDSHAKE_LIMIT_MS = 10_000;
/** How many connections there are at once; one more closes another, of the address that has the most. */
const CONNECTION_LIMITS = {
  /** That have shown no certificate yet. All agents may come at once. */
  strangers: 1024,
  /** With a good certificate: far more than there are agents. */
  known: 16_384,
};
/** Refusals that are logged only once; above this number all are forgotten. */
const LOGGED_LIMIT = 1000;

export function createMutualTls(log: Logger, limits = CONNECTION_LIMITS): MutualTls {
  const logged = new Set<string>();
  // Not rejectUnauthorized, which ends a connection without a reason: `authorized` is checked below.
  const server = createServer({
    ...TLS_OPTIONS,
    requestCert: true,
    rejectUnauthorized: false,
    handshakeTimeout: HANDSHAKE_LIMIT_MS,
  });
  const refused = (peer: string | undefined, reason: string): void => {
    const isNews = !logged.has(`${peer} ${reason}`);
    if (logged.size >= LOGGED_LIMIT) logged.clear();
    logged.add(`${peer} ${reason}`);
    log[isNews ? "warn" : "debug"]({ peer, reason }, "a connection was refused");
  };
  const [strangers, known] = [createConnectionLimit(limits.strangers), createConnectionLimit(limits.known)];
  const line = createHandshakeLine({
    begin: (socket) => server.emit("connection", socket),
    heard: strangers.heard,
    monotonicMs: () => systemClock.monotonicMs(),
  });
  const accepting = createAcceptingServer({ pauseOnConnect: true }, (socket) => {
    strangers.opened(socket);
    if (!socket.destroyed) line.add(socket);
  });
  server.on("tlsClientError", (error, socket) => {
    line.ended(socket);
    refused(socket.remoteAddress, reasonOf(error));
  });
  return {
    replace: (pair) => showPair(server, pair, TLS_OPTIONS),
    listen: ({ host, port }, accepted) =>
      new Promise((resolve, reject) => {
        server.on("secureConnection", (connection) => {
          connection.on("error", () => {}); // the protocol on it hears of its end
          line.ended(connection);
          if (connection.authorized) {
            strangers.left(connection);
            known.opened(connection);
            return accepted(connection);
          }
          refused(connection.remoteAddress, `no good certificate: ${String(connection.authorizationError)}`);
          connection.destroy();
        });
        accepting.once("error", reject);
        accepting.listen(port, host, () => {
          // From here on an error is a connection's that could not be taken: unheard, it would end the process.
          accepting.off("error", reject);
          accepting.on("error", (err) => log.warn({ err }, "a connection was not accepted"));
          resolve((accepting.address() as AddressInfo).port);
        });
      }),
    close: () => {
      accepting.close();
    },
  };
}

/** OpenSSL's words without its file and line. */
function reasonOf(error: Error & { reason?: string; code?: string }): string {
  return error.reason ?? error.code ?? error.message;
}
