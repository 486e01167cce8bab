// Strangers at the port of samples, by real sockets: an agent with its certificate gets in all the same, and the engine has no more of them
// open, and no more handshakes under way, than it allows.
import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { connect as connectTls } from "node:tls";
import { afterEach, beforeEach, expect, it } from "@jest/globals";
import { waitFor } from "../../harness/wait-for.ts";
import {
  type AgentEnd,
  type EngineEnd,
  mountPair,
  type SecretsCluster,
  startAgentEnd,
  startEngineEnd,
  startSecretsCluster,
} from "./sample-stream-under-test.ts";

const LIMIT_MS = 120_000;
/** As another pod's: agents of the test connect from 127.0.0.1. */
const STRANGER = "127.0.0.2";
const SILENT = 3000;
const OPEN_LIMIT = 1024;
const BEGUN = 300;
const UNDER_WAY_LIMIT = 32;
/** Longer than anything is on its way between two sockets of this machine. */
const SETTLED_MS = 1000;

let cluster: SecretsCluster;
let engine: EngineEnd;
let agent: AgentEnd | undefined;
let strangers: Socket[];

beforeEach(async () => {
  [strangers, agent, cluster] = [[], undefined, await startSecretsCluster()];
  engine = await startEngineEnd(cluster);
  await cluster.pair("agent");
});
afterEach(async () => {
  agent?.stop();
  for (const stranger of strangers) stranger.destroy();
  await engine.stop();
  await cluster.stop();
});

/** Resolves when it is open. */
async function open(): Promise<Socket> {
  const port = Number(engine.address.split(":").at(-1));
  const socket = connect({ port, host: "127.0.0.1", localAddress: STRANGER });
  strangers.push(socket);
  socket.on("error", () => undefined);
  await once(socket, "connect");
  return socket;
}

async function agentGetsIn(): Promise<void> {
  agent = startAgentEnd(cluster, [engine.address], mountPair(cluster, "agent", await cluster.pair("agent")));
  await waitFor("its sample", () => engine.heard.includes("node-a fs-a") || undefined);
}

/** What a client begins a handshake with. */
async function clientHello(): Promise<Buffer> {
  const server = createServer();
  await once(server.listen(0, "127.0.0.1"), "listening");
  const accepted = once(server, "connection");
  const client = connectTls({ port: (server.address() as AddressInfo).port, host: "127.0.0.1", ALPNProtocols: ["h2"] });
  client.on("error", () => undefined);
  const [socket] = (await accepted) as [Socket];
  const [hello] = (await once(socket, "data")) as [Buffer];
  client.destroy();
  socket.destroy();
  server.close();
  return hello;
}

it(
  `an agent gets in past ${SILENT} strangers that say nothing, and most of them are closed`,
  async () => {
    for (let opened = 0; opened < SILENT; opened += 100) await Promise.all(Array.from({ length: 100 }, open));
    // Reading shows the end of one that was closed.
    for (const stranger of strangers) stranger.resume();
    await agentGetsIn();
    await waitFor(
      "the strangers to be closed that are too many",
      () => strangers.filter(({ closed }) => !closed).length <= OPEN_LIMIT || undefined,
    );
    expect(engine.heard).toEqual(["hello node-a", "node-a fs-a"]);
  },
  LIMIT_MS,
);

it(
  `an agent gets in past ${BEGUN} strangers that begin a handshake and leave it there, of which few are answered at a time`,
  async () => {
    const hello = await clientHello();
    const answered = new Set<Socket>();
    for (let opened = 0; opened < BEGUN; opened += 100) await Promise.all(Array.from({ length: 100 }, open));
    for (const stranger of strangers) stranger.once("data", () => answered.add(stranger)).write(hello);
    await sleep(SETTLED_MS);
    const underWay = [...answered].filter(({ closed }) => !closed);
    expect(underWay.length).toBeGreaterThan(0);
    expect(underWay.length).toBeLessThanOrEqual(UNDER_WAY_LIMIT);
    await agentGetsIn();
  },
  LIMIT_MS,
);
