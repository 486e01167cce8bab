// A webhook's server that is to end while callers are silent: the process has its lease to give back.
import { connect, type TLSSocket } from "node:tls";
import { afterEach, beforeEach, it } from "@jest/globals";
import { createWebhookServer, type WebhookServer } from "../../../src/platform/kube/admission/webhook-server.ts";
import { makeOwnPair } from "../../../src/platform/process/certificates/issue-certificate.ts";
import { systemClock } from "../../../src/platform/process/clock.ts";
import { createRecordingLog } from "../../fakes/recording-log.ts";
import { eventually } from "../../harness/wait-for.ts";

const PATH = "/review";
const HEAD = `POST ${PATH} HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n`;

let server: WebhookServer;
let port: number;
let caller: TLSSocket;
let isClosed: boolean;
beforeEach(async () => {
  const { log } = createRecordingLog();
  const answer = async (): Promise<object> => ({});
  server = createWebhookServer({
    host: "127.0.0.1",
    port: 0,
    path: PATH,
    answer,
    refused: () => {},
    clock: systemClock,
    log,
  });
  server.replace(await makeOwnPair("webhook.tidemark.dev", Date.now()));
  port = await server.listen();
  isClosed = false;
});
afterEach(() => void caller.destroy());

it.each([
  ["nothing", ""],
  ["half a head", HEAD.slice(0, 20)],
  ["a head and half a body", `${HEAD}{`],
])("ends soon although a caller has sent %s", async (_what, sent) => {
  // By address: no name of the certificate is checked.
  caller = connect({ port, host: "127.0.0.1", rejectUnauthorized: false });
  caller.on("error", () => {});
  await new Promise((resolve) => caller.once("secureConnect", resolve));
  caller.write(sent);
  void server.close().then(() => {
    isClosed = true;
  });
  await eventually("it has ended", () => isClosed, { limitMs: 8000 });
});
