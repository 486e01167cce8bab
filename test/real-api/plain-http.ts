// The plain HTTP that tests speak, before an API server that speaks TLS alone. It passes bytes on and looks at none, so that what a client
// sees of a watch, a refusal or a connection that breaks off is what the API server does.
import { once } from "node:events";
import { type AddressInfo, createServer, type Socket } from "node:net";
import { connect } from "node:tls";
import type { Credentials } from "./credentials.ts";

const LOOPBACK = "127.0.0.1";

export interface PlainHttp {
  readonly port: number;
  /** Cuts every connection off. */
  stop(): Promise<void>;
}

/** Rejects when the port is taken; 0 is any free one. */
export async function servePlainHttp(port: number, securePort: number, { cert, key }: Credentials): Promise<PlainHttp> {
  const sockets = new Set<Socket>();
  const server = createServer({ allowHalfOpen: true }, (client) => {
    const secured = connect({ host: LOOPBACK, port: securePort, ca: cert, cert, key });
    for (const socket of [client, secured]) {
      sockets.add(socket);
      const other = socket === client ? secured : client;
      socket.setNoDelay(true);
      socket.on("error", () => undefined); // Its close follows, and ends the other one.
      socket.on("close", (isBroken) => {
        sockets.delete(socket);
        if (isBroken) other.destroy();
        else other.end();
      });
      socket.pipe(other);
    }
  });
  await once(server.listen(port, LOOPBACK), "listening");
  return {
    port: (server.address() as AddressInfo).port,
    stop: async () => {
      const closed = once(server, "close");
      server.close();
      for (const socket of sockets) socket.destroy();
      await closed;
    },
  };
}
