// What a server gives its clients: so many connections at once, and so large bodies. One connection more closes another instead of being
// refused: a client that opens thousands of silent ones loses its own, and a real question always gets in.
import type { Server as HttpServer, IncomingMessage } from "node:http";
import type { Server, Socket } from "node:net";
import { formatBytes } from "../../../contracts/quantities/quantity.ts";

type Peer = Pick<Socket, "remoteAddress" | "remotePort">;

interface Connection {
  readonly key: string;
  readonly socket: Socket;
  readonly address: string;
  /** A request has come on it, at any time: of mutual TLS, only from holders of a certificate. */
  hasAsked: boolean;
  /** Requests that came whole and have no answer yet. */
  underWay: number;
}

interface ConnectionLimit {
  /** One more: where that is one too many, another one is closed. */
  opened(socket: Socket): void;
  /** Its peer has shown that it is not silent. */
  heard(socket: Peer): void;
  /** It counts no more, and goes on. */
  left(socket: Peer): void;
}

/** Of connections on which anything is spoken. */
export function createConnectionLimit(limit: number): ConnectionLimit {
  const { opened, find, use, left } = createConnections(limit);
  return {
    opened,
    left,
    heard: (socket) => {
      const connection = find(socket);
      if (connection === undefined) return;
      connection.hasAsked = true;
      use(connection);
    },
  };
}

/** `accepting`: where connections come in, before any handshake. `answering`: where requests are heard; of plain HTTP the same server. */
export function limitConnections(accepting: Server, answering: Pick<HttpServer, "on">, limit: number): void {
  const { opened, find, use } = createConnections(limit);
  accepting.on("connection", opened);
  answering.on("request", (request, response) => {
    const connection = find(request.socket);
    if (connection === undefined) return;
    connection.hasAsked = true;
    use(connection);
    request.once("end", () => {
      if (response.writableEnded || find(request.socket) !== connection) return;
      connection.underWay += 1;
      const answered = (): void => {
        response.off("prefinish", answered).off("close", answered);
        connection.underWay -= 1;
      };
      // An answer that the peer does not take counts for nothing.
      response.once("prefinish", answered).once("close", answered);
    });
  });
}

function createConnections(limit: number) {
  /** In order of use. */
  const connections = new Map<string, Connection>();
  const find = (socket: Peer): Connection | undefined => connections.get(keyOf(socket) ?? "");
  const left = (socket: Peer): void => void connections.delete(keyOf(socket) ?? "");
  return {
    find,
    left,
    use: (connection: Connection): void => {
      connections.delete(connection.key);
      connections.set(connection.key, connection);
    },
    opened: (socket: Socket): void => {
      const key = keyOf(socket);
      // Gone already.
      if (key === undefined) return void socket.destroy();
      connections.set(key, { key, socket, address: socket.remoteAddress ?? "", hasAsked: false, underWay: 0 });
      socket.once("close", () => {
        if (connections.get(key)?.socket === socket) connections.delete(key);
      });
      if (connections.size <= limit) return;
      const closed = leastNeeded([...connections.values()], socket);
      connections.delete(closed.key);
      closed.socket.destroy();
    },
  };
}

/**
 * Of the address that has the most: the least recently used one, and one that never asked anything before all others, unless it is being
 * answered. Where all are being answered, its newest.
 */
function leastNeeded(connections: readonly Connection[], newest: Socket): Connection {
  const counts = new Map<string, number>();
  for (const { address } of connections) counts.set(address, (counts.get(address) ?? 0) + 1);
  const most = Math.max(...counts.values());
  const ofMost = connections.filter(({ address }) => counts.get(address) === most);
  const idle = ofMost.filter(({ socket, underWay }) => underWay === 0 && socket !== newest);
  const found = idle.find(({ hasAsked }) => !hasAsked) ?? idle[0] ?? ofMost.at(-1);
  if (found === undefined) throw new Error("there is no connection");
  return found;
}

/** The same of a connection and of the TLS on it. */
export function keyOf({ remoteAddress, remotePort }: Peer): string | undefined {
  return remoteAddress === undefined ? undefined : `${remoteAddress} ${remotePort}`;
}

// Reads the bodies of a server's requests, whole or refused: a limit bounds each, and another all that are being read. A refused body is
// read on and dropped: a client that still sends would lose the answer.

interface BodyLimits {
  /** Of one body. */
  readonly bodyBytes: number;
  /** Of all bodies that are being read: clients of the port must not fill our memory. */
  readonly allBytes: number;
}

/** `status`: 413, the body is over its limit; 503, too much is being sent at once. */
export class BodyRefused extends Error {
  override name = "BodyRefused";
  readonly status: 413 | 503;
  constructor(status: 413 | 503, message: string) {
    super(message);
    this.status = status;
  }
}

/** Throws BodyRefused; rejects when the connection breaks. How long a sender may take is the server's requestTimeout. */
export type BodyReader = (request: IncomingMessage) => Promise<Buffer>;

export function createBodyReader({ bodyBytes, allBytes }: BodyLimits): BodyReader {
  let keptBytes = 0;
  return async (request) => {
    // Made when one is refused: an error costs as much as the rest of a short request.
    const tooLarge = () => new BodyRefused(413, `a request's body is limited to ${formatBytes(bodyBytes)}`);
    let chunks: Buffer[] = [];
    let ownBytes = 0;
    let refused = Number(request.headers["content-length"] ?? 0) > bodyBytes ? tooLarge() : undefined;
    try {
      for await (const chunk of request as AsyncIterable<Buffer>) {
        if (refused !== undefined) continue;
        ownBytes += chunk.length;
        keptBytes += chunk.length;
        chunks.push(chunk);
        if (ownBytes > bodyBytes) refused = tooLarge();
        else if (keptBytes > allBytes) refused = new BodyRefused(503, "too much is being sent at once; send it again");
        if (refused === undefined) continue;
        chunks = [];
        keptBytes -= ownBytes;
        ownBytes = 0;
      }
    } finally {
      keptBytes -= ownBytes;
    }
    if (refused !== undefined) throw refused;
    return Buffer.concat(chunks);
  };
}
