// A server whose connections are limited, with real ones: which is closed for one more.
import { Agent, createServer, request, type Server } from "node:http";
import { type AddressInfo, connect, type Socket } from "node:net";
import { afterEach, beforeEach, describe, expect, it } from "@jest/globals";
import { limitConnections } from "../../../../../src/platform/process/http/client-limits.ts";
import { waitFor } from "../../../../harness/wait-for.ts";

const LIMIT = 4;
const STRANGER = "127.0.0.2";

let server: Server;
let port: number;
let sockets: Socket[];
let release: () => void;
let waiting: number;

beforeEach(async () => {
  sockets = [];
  waiting = 0;
  const released = new Promise<void>((resolve) => {
    release = resolve;
  });
  server = createServer((asked, response) => {
    asked.resume().once("end", () => {
      if (asked.url === "/slow") waiting += 1;
      if (asked.url === "/slow") void released.then(() => response.end("slow"));
      else response.end("ok");
    });
  });
  server.keepAliveTimeout = 60_000;
  limitConnections(server, server, LIMIT);
  await new Promise<void>((resolve) => {
    server.listen(0, "127.0.0.1", resolve);
  });
  ({ port } = server.address() as AddressInfo);
});
afterEach(async () => {
  release();
  for (const socket of sockets) socket.destroy();
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
});

/** Resolves when it is open. */
async function open(localAddress = "127.0.0.1"): Promise<Socket> {
  const socket = connect({ port, host: "127.0.0.1", localAddress });
  socket.on("error", () => undefined);
  sockets.push(socket);
  await new Promise((resolve) => socket.once("connect", resolve));
  return socket;
}

/** Resolves with what comes first. */
async function ask(socket: Socket, path = "/"): Promise<string> {
  if (socket.destroyed) return "closed";
  const answered = new Promise<string>((resolve) => {
    socket.once("data", (data: Buffer) => resolve(data.toString()));
    socket.once("close", () => resolve("closed"));
  });
  socket.write(`GET ${path} HTTP/1.1\r\nhost: x\r\n\r\n`);
  return answered;
}

const closed = (socket: Socket): Promise<true> =>
  waitFor("the connection to be closed", async () => (socket.closed ? true : undefined));
const allOpen = async (connections: readonly Socket[]): Promise<void> => {
  for (const socket of connections) expect(await ask(socket)).toContain("200 OK");
};

describe("a connection beyond the limit", () => {
  it("closes the one that is silent for longest, and gets its answer", async () => {
    const silent = [await open(), await open(), await open(), await open()];
    const another = await open();
    expect(await ask(another)).toContain("200 OK");
    await closed(silent[0] as Socket);
    await allOpen(silent.slice(1));
  });

  it("closes one that has asked nothing before one that was answered", async () => {
    const answered = await open();
    expect(await ask(answered)).toContain("200 OK");
    const silent = [await open(), await open(), await open()];
    await open();
    await closed(silent[0] as Socket);
    expect(await ask(answered)).toContain("200 OK");
  });

  it("closes, of those that were answered, the one whose last answer is longest ago", async () => {
    const answered = [await open(), await open(), await open(), await open()];
    await allOpen(answered);
    expect(await ask(answered[0] as Socket)).toContain("200 OK");
    expect(await ask(await open())).toContain("200 OK");
    await closed(answered[1] as Socket);
    expect(await ask(answered[0] as Socket)).toContain("200 OK");
  });

  it("closes none that waits for its answer", async () => {
    const answer = ask(await open(), "/slow");
    await waitFor("the question to be there", async () => waiting === 1 || undefined);
    for (let index = 0; index < 2 * LIMIT; index += 1) await ask(await open());
    release();
    expect(await answer).toContain("slow");
  });

  it("closes one of the address that has most of them, whatever the others have done", async () => {
    const own = await open();
    for (let index = 0; index < 3 * LIMIT; index += 1) expect(await ask(await open(STRANGER))).toContain("200 OK");
    expect(await ask(own)).toContain("200 OK");
  });

  it("is closed itself where all others of its address are being answered", async () => {
    const answers = await Promise.all([1, 2, 3, 4].map(async () => ({ answer: ask(await open(), "/slow") })));
    await waitFor("the questions to be there", async () => waiting === LIMIT || undefined);
    expect(await ask(await open())).toBe("closed");
    release();
    for (const { answer } of answers) expect(await answer).toContain("slow");
  });

  it("keeps out nobody, where thousands come that say nothing", async () => {
    const agent = new Agent({ keepAlive: true });
    const answered = (): Promise<number> =>
      new Promise((resolve, reject) => {
        const sent = request({ port, host: "127.0.0.1", agent }, (response) => {
          response.resume().once("end", () => resolve(response.statusCode ?? 0));
        });
        sent.on("error", reject);
        sent.end();
      });
    for (let round = 0; round < 20; round += 1) {
      await Promise.all(Array.from({ length: 100 }, () => open(STRANGER)));
      expect(await answered()).toBe(200);
    }
    agent.destroy();
  });
});
