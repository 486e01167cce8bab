// Connections to a server of this process on which nothing is said, and how many of them the server still has.
import { connect, Server, type Socket } from "node:net";
import { jest } from "@jest/globals";

/** What `start` makes listen, before anything else does. */
export async function listeningServer<T>(start: () => Promise<T>): Promise<{ server: Server; started: T }> {
  const listen = jest.spyOn(Server.prototype, "listen");
  try {
    const started = await start();
    const [server] = listen.mock.contexts;
    if (!(server instanceof Server)) throw new Error("nothing listens");
    return { server, started };
  } finally {
    listen.mockRestore();
  }
}

/** Opened one after the other, so that their order is known; of an address of their own. */
export async function openSilent(port: number, count: number): Promise<Socket[]> {
  const sockets: Socket[] = [];
  for (let opened = 0; opened < count; opened += 1) {
    const socket = connect({ port, host: "127.0.0.1", localAddress: "127.0.0.2" });
    socket.on("error", () => {});
    sockets.push(socket);
    await new Promise((resolve) => socket.once("connect", resolve));
  }
  return sockets;
}

export function connectionsOf(server: Server): Promise<number> {
  return new Promise((resolve, reject) => {
    server.getConnections((error, count) => (error === null ? resolve(count) : reject(error)));
  });
}
