import { once } from "node:events";
import { type AddressInfo, connect, type Socket } from "node:net";
import { createServer as createTlsServer, type Server as TlsServer } from "node:tls";
import { afterEach, beforeEach, expect, it } from "@jest/globals";
import {
  acceptInTurns,
  type TurnedConnections,
} from "../../../../../src/platform/process/certificates/handshake-line.ts";
import { waitFor } from "../../../../harness/wait-for.ts";

/** Stands in for the TLS server: what it is given, by the peer's port. */
let begun: number[];
let secure: TlsServer;
let turned: TurnedConnections;

beforeEach(async () => {
  begun = [];
  // No connection of it is one of TLS.
  secure = createTlsServer().removeAllListeners("connection");
  secure.on("connection", ({ remotePort = 0 }: Socket) => begun.push(remotePort));
  turned = acceptInTurns(secure);
  await once(turned.accepting.listen(0, "127.0.0.1"), "listening");
});
afterEach(() => turned.close());

async function open(): Promise<Socket> {
  const socket = connect((turned.accepting.address() as AddressInfo).port, "127.0.0.1").on("error", () => {});
  await once(socket, "connect");
  return socket;
}

it("a connection gets its handshake when its peer has said something, not before", async () => {
  const silent = await open();
  const speaking = await open();
  speaking.write("hello");
  await waitFor("the one that speaks", async () => begun.length > 0 || undefined);
  expect(begun).toEqual([speaking.localPort]);
  silent.write("hello");
  await waitFor("the other one", async () => begun.length > 1 || undefined);
});

it("all connections end with the server", async () => {
  const sockets = [await open(), await open()];
  sockets[0]?.write("hello");
  await waitFor("one to be begun", async () => begun.length > 0 || undefined);
  const ends = sockets.map((socket) => once(socket, "close"));
  await turned.close();
  await Promise.all(ends);
});
