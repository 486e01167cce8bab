// The HTTPS end of a webhook: one path that takes JSON of a limited size and gives JSON back. It knows nothing of what is asked. Before it
// has a certificate every handshake fails.
import type { IncomingMessage, ServerResponse } from "node:http";
import { createServer } from "node:https";
import type { AddressInfo } from "node:net";
import { MIB } from "../../../contracts/quantities/quantity.ts";
import type { StoredPair } from "../../process/certificates/key-pair.ts";
import { showPair } from "../../process/certificates/shown-pair.ts";
import type { Clock } from "../../process/clock.ts";
import { type BodyReader, BodyRefused, createBodyReader, limitConnections } from "../../process/http/client-limits.ts";
import type { Logger } from "../../process/log.ts";

export interface WebhookServerOptions {
  readonly host: string;
  /** 0 picks a free port. */
  readonly port: number;
  readonly path: string;
  /** Throws RequestRefused. */
  readonly answer: (body: Buffer) => Promise<object>;
  /** Called for each request that got no answer of `answer`. */
  readonly refused: (durationMs: number) => void;
  readonly clock: Pick<Clock, "monotonicMs">;
  readonly log: Logger;
}

export interface WebhookServer {
  /** Throws, and goes on with what it has, when the pair cannot be used. */
  replace(pair: StoredPair): void;
  /** The port. */
  listen(): Promise<number>;
  close(): Promise<void>;
}

/** A request that cannot be answered: its HTTP status, and a sentence for the log of its sender. */
export class RequestRefused extends Error {
  override name = "RequestRefused";
  readonly status: number;
  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

const TLS_OPTIONS = { minVersion: "TLSv1.2" } as const;
/** An object is at most 3 MiB in the API server, and a review has one in addition to a few fields. */
const BODY_LIMITS = { bodyBytes: 4 * MIB, allBytes: 64 * MIB };
const REQUEST_LIMIT_MS = 10_000;
const CONNECTIONS_LIMIT = 512;
/** Who is silent in the middle of a request does not keep the process: the parts behind this one give its lease back. */
const CLOSE_LIMIT_MS = 1000;
/** Longer than the API server keeps an idle one (90 s): one that we close first may take a request with it, and what it asked about is not checked. */
const IDLE_LIMIT_MS = 120_000;

export function createWebhookServer(options: WebhookServerOptions): WebhookServer {
  const { host, port, log } = options;
  const readBody = createBodyReader(BODY_LIMITS);
  const server = createServer(
    {
      ...TLS_OPTIONS,
      handshakeTimeout: REQUEST_LIMIT_MS,
      requestTimeout: REQUEST_LIMIT_MS,
      keepAliveTimeout: IDLE_LIMIT_MS,
    },
    (request, response) => void respond(options, readBody, request, response),
  );
  limitConnections(server, server, CONNECTIONS_LIMIT);
  server.on("tlsClientError", (err, { remoteAddress }) =>
    log.debug({ err, peer: remoteAddress }, "a handshake failed"),
  );
  return {
    replace: (pair) => showPair(server, pair, TLS_OPTIONS),
    listen: () =>
      new Promise((resolve, reject) => {
        server.once("error", reject);
        server.listen(port, host, () => {
          // From here on an error is a connection's that could not be taken: unheard, it would end the process.
          server.off("error", reject);
          server.on("error", (err) => log.warn({ err }, "a connection was not accepted"));
          resolve((server.address() as AddressInfo).port);
        });
      }),
    close: () =>
      new Promise((resolve) => {
        const cut = setTimeout(() => server.closeAllConnections(), CLOSE_LIMIT_MS);
        server.close(() => {
          clearTimeout(cut);
          resolve();
        });
        server.closeIdleConnections();
      }),
  };
}

async function respond(
  options: WebhookServerOptions,
  readBody: BodyReader,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const startedMs = options.clock.monotonicMs();
  try {
    assertReview(options, request);
    const answer = JSON.stringify(await options.answer(await readBody(request)));
    response.writeHead(200, { "content-type": "application/json" }).end(answer);
  } catch (error) {
    options.refused(options.clock.monotonicMs() - startedMs);
    const isRefusal = error instanceof RequestRefused || error instanceof BodyRefused;
    const refusal = isRefusal ? error : new RequestRefused(500, "the webhook has failed; see its log");
    options.log[isRefusal ? "debug" : "error"]({ err: error }, "a request to the webhook was refused");
    response
      .writeHead(refusal.status, { "content-type": "text/plain", connection: "close" })
      .end(`${refusal.message}\n`);
  }
}

/** By its head alone. */
function assertReview({ path }: WebhookServerOptions, request: IncomingMessage): void {
  if (request.url?.split("?")[0] !== path) throw new RequestRefused(404, `there is nothing but ${path}`);
  if (request.method !== "POST") throw new RequestRefused(405, `${path} takes POST`);
  const [type] = (request.headers["content-type"] ?? "").split(";");
  if (type !== "application/json")
    throw new RequestRefused(415, `the content type is "${type}"; it must be application/json`);
}
