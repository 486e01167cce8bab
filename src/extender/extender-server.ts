// The extender over HTTP: POST /filter and /prioritize for kube-scheduler, /healthz, /readyz and /metrics as every process has them. Bad
// questions get a sentence and a status of 4xx; nothing that is sent ends the process.
import { createServer, type IncomingMessage, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import type { Clock } from "../process/clock.ts";
import type { Logger } from "../process/log.ts";
import { type BodyReader, BodyRefused, createBodyReader } from "../process/request-body.ts";
import { MIB } from "../units/quantity.ts";
import type { ExtenderMetrics, Verb } from "./metrics.ts";
import type { Placement } from "./placement.ts";
import { filterResult, priorityList, readArgs, WireError } from "./scheduler-wire.ts";

export interface ExtenderServerOptions {
  readonly host: string;
  /** 0 picks a free port. */
  readonly port: number;
  readonly placement: Placement;
  readonly metrics: ExtenderMetrics;
  readonly clock: Clock;
  /** Undefined when ready, else what it waits for. */
  readonly notReady: () => string | undefined;
  readonly log: Logger;
}

export interface ExtenderServer {
  readonly port: number;
  close(): Promise<void>;
}

interface Answer {
  readonly status: number;
  readonly type: string;
  readonly body: string;
}

/** A scheduler asks one question after another: an idle connection is one to keep. */
const IDLE_CONNECTION_MS = 300_000;
/** What a scheduler sends at most that sends its nodes whole: 5,000 of 10 KiB each; and a few of them at once. */
const BODY_LIMITS = { bodyBytes: 64 * MIB, allBytes: 256 * MIB };
const CONNECTIONS_LIMIT = 128;
/** The whole of one request, on a slow network. */
const REQUEST_LIMIT_MS = 30_000;

export async function startExtenderServer(options: ExtenderServerOptions): Promise<ExtenderServer> {
  const readBody = createBodyReader(BODY_LIMITS);
  const server = createServer((request, response) => {
    answer(request, readBody, options).then(
      ({ status, type, body }) => {
        // With its length it leaves in one piece.
        response.writeHead(status, { "content-type": type, "content-length": Buffer.byteLength(body) }).end(body);
      },
      (err: unknown) => {
        options.log.error({ err, url: request.url }, "a request failed");
        if (!response.headersSent) response.writeHead(500, { "content-type": "text/plain" }).end("internal error\n");
      },
    );
  });
  server.maxConnections = CONNECTIONS_LIMIT;
  server.keepAliveTimeout = IDLE_CONNECTION_MS;
  server.requestTimeout = REQUEST_LIMIT_MS;
  await listen(server, options);
  return {
    port: (server.address() as AddressInfo).port,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeIdleConnections();
      }),
  };
}

async function answer(request: IncomingMessage, readBody: BodyReader, options: ExtenderServerOptions): Promise<Answer> {
  const path = request.url?.split("?")[0] ?? "/";
  switch (path) {
    case "/filter":
    case "/prioritize":
      return question(request, readBody, path === "/filter" ? "filter" : "prioritize", options);
    case "/metrics":
      return {
        status: 200,
        type: options.metrics.registry.contentType,
        body: await options.metrics.registry.metrics(),
      };
    case "/healthz":
      return plain(200, "ok");
    case "/readyz":
      return plain(options.notReady() === undefined ? 200 : 503, options.notReady() ?? "ok");
    default:
      return plain(404, "not found; there are /filter, /prioritize, /healthz, /readyz and /metrics");
  }
}

async function question(
  request: IncomingMessage,
  readBody: BodyReader,
  verb: Verb,
  options: ExtenderServerOptions,
): Promise<Answer> {
  const startMs = options.clock.monotonicMs();
  const answered = await questionAnswer(request, readBody, verb, options);
  options.metrics.answered(verb, String(answered.status), options.clock.monotonicMs() - startMs);
  return answered;
}

async function questionAnswer(
  request: IncomingMessage,
  readBody: BodyReader,
  verb: Verb,
  { placement, metrics, clock, notReady }: ExtenderServerOptions,
): Promise<Answer> {
  if (request.method !== "POST") return plain(405, `/${verb} is asked by POST`);
  try {
    const args = readArgs(await readBody(request));
    const waitsFor = notReady();
    // Not an empty list: that would say that no node fits.
    if (waitsFor !== undefined) return plain(503, `not ready: ${waitsFor}`);
    if (verb === "prioritize") return json(priorityList(placement.prioritize(args.pod, args.nodeNames, clock.nowMs())));
    const answer = placement.filter(args.pod, args.nodeNames, clock.nowMs());
    metrics.filtered(answer);
    return json(filterResult(args, answer));
  } catch (error) {
    if (error instanceof WireError) return plain(400, error.message);
    if (error instanceof BodyRefused)
      return plain(error.status, `${error.message}; by name a node takes few (nodeCacheCapable: true)`);
    if (request.destroyed && !request.complete) return plain(400, "the request ended before its body did");
    throw error;
  }
}

function plain(status: number, sentence: string): Answer {
  return { status, type: "text/plain", body: `${sentence}\n` };
}

function json(value: object): Answer {
  return { status: 200, type: "application/json", body: JSON.stringify(value) };
}

function listen(server: Server, { host, port }: ExtenderServerOptions): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once("error", reject);
    server.listen(port, host, () => {
      server.off("error", reject);
      resolve();
    });
  });
}
