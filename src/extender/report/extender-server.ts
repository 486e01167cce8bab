// The extender's questions over HTTP: POST /filter and /prioritize, for kube-scheduler alone. A bad question gets a sentence and a status
// of 4xx, and ends nothing; no client's connections block another's. Probes and metrics have a port of their own.
import { constants } from "node:crypto";
import { createServer, type IncomingMessage, type RequestListener, type Server, type ServerResponse } from "node:http";
import { createServer as createTlsServer, type Server as TlsServer } from "node:https";
import type { AddressInfo } from "node:net";
import { SECRETS, type Secret } from "../../contracts/kubernetes/resources.ts";
import { EXTENDER_SECRETS } from "../../contracts/names.ts";
import { MIB } from "../../contracts/quantities/quantity.ts";
import { createReflector } from "../../platform/kube/cache/reflector.ts";
import type { KubeClient } from "../../platform/kube/client/client.ts";
import type { StoredPair } from "../../platform/process/certificates/key-pair.ts";
import { showPair, showSecret } from "../../platform/process/certificates/shown-pair.ts";
import type { Clock } from "../../platform/process/clock.ts";
import {
  type BodyReader,
  BodyRefused,
  createBodyReader,
  limitConnections,
} from "../../platform/process/http/client-limits.ts";
import type { Logger } from "../../platform/process/log.ts";
import { NOT_THERE } from "../decide/decide-asked-pod.ts";
import type { AskedPods } from "../gather/asked-pods.ts";
import type { ExtenderMetrics, Verb } from "../metrics.ts";
import type { FilterAnswer, Placement, ScoredNode } from "../place-pods.ts";
import { type ExtenderArgs, filterResult, priorityList, readArgs, WireError } from "./scheduler-wire.ts";

interface ExtenderServerOptions {
  readonly host: string;
  /** 0 picks a free port. */
  readonly port: number;
  /** Only holders of a certificate of our CA are heard; without, every client is. */
  readonly tls: boolean;
  readonly placement: Placement;
  readonly pods: Pick<AskedPods, "seen" | "find">;
  readonly metrics: Omit<ExtenderMetrics, "registry">;
  readonly clock: Clock;
  /** Undefined when ready, else what it waits for. */
  readonly notReady: () => string | undefined;
  readonly log: Logger;
}

interface ExtenderServer {
  readonly port: number;
  /** Throws, and goes on with what it has, when the pair cannot be used. With TLS every handshake fails before the first. */
  replace(pair: StoredPair): void;
  close(): Promise<void>;
}

interface Answer {
  readonly status: number;
  readonly type: string;
  readonly body: string;
}

/** A scheduler asks one question after another: an idle connection is one to keep. */
const IDLE_CONNECTION_MS = 300_000;
/** A pod of at most 3 MiB, as the API server takes it, and 20,000 names; and a few such questions at once. */
const BODY_LIMITS = { bodyBytes: 8 * MIB, allBytes: 64 * MIB };
/** Answers that their callers have not read yet, together: a caller may never read its answer. */
const ANSWERS_LIMIT_BYTES = 64 * MIB;
const CONNECTIONS_LIMIT = 128;
/** The whole of one request, on a slow network. */
const REQUEST_LIMIT_MS = 30_000;
/** The whole of one answer; a scheduler has given up by then. */
const ANSWER_LIMIT_MS = 30_000;

export async function startExtenderServer(options: ExtenderServerOptions): Promise<ExtenderServer> {
  const readBody = createBodyReader(BODY_LIMITS);
  const send = createSender(ANSWERS_LIMIT_BYTES);
  const listener: RequestListener = (request, response) => {
    answer(request, readBody, options).then(
      (answered) => send(response, answered),
      (err: unknown) => {
        options.log.error({ err, url: request.url }, "a request failed");
        if (!response.headersSent) response.writeHead(500, { "content-type": "text/plain" }).end("internal error\n");
      },
    );
  };
  const secure = options.tls ? createSecureServer(listener, options.log) : undefined;
  const server = secure ?? createServer(listener);
  limitConnections(server, server, CONNECTIONS_LIMIT);
  server.keepAliveTimeout = IDLE_CONNECTION_MS;
  server.requestTimeout = REQUEST_LIMIT_MS;
  await listen(server, options);
  return {
    port: (server.address() as AddressInfo).port,
    replace: (pair) => secure && showPair(secure, pair, TLS_OPTIONS),
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeIdleConnections();
      }),
  };
}

/** A resumed session would show no certificate: no tickets. */
const TLS_OPTIONS = { minVersion: "TLSv1.3", secureOptions: constants.SSL_OP_NO_TICKET } as const;

function createSecureServer(listener: RequestListener, log: Logger): TlsServer {
  const who = { requestCert: true, rejectUnauthorized: true, handshakeTimeout: REQUEST_LIMIT_MS };
  const server = createTlsServer({ ...TLS_OPTIONS, ...who }, listener);
  server.on("tlsClientError", (err, { remoteAddress }) =>
    log.debug({ err, peer: remoteAddress }, "a handshake failed"),
  );
  return server;
}

/** Sends answers while no more than so much of them is waiting to be taken. */
function createSender(limitBytes: number): (response: ServerResponse, answer: Answer) => void {
  let waitingBytes = 0;
  return (response, answered) => {
    const isTooMuch = waitingBytes > 0 && waitingBytes + Buffer.byteLength(answered.body) > limitBytes;
    const { status, type, body } = isTooMuch ? plain(503, "too many answers wait to be read; ask again") : answered;
    if (response.destroyed) return;
    const bytes = Buffer.byteLength(body);
    waitingBytes += bytes;
    const giveUp = setTimeout(() => response.destroy(), ANSWER_LIMIT_MS);
    response.once("close", () => {
      clearTimeout(giveUp);
      waitingBytes -= bytes;
    });
    // With its length it leaves in one piece.
    response.writeHead(status, { "content-type": type, "content-length": bytes }).end(body);
  };
}

async function answer(request: IncomingMessage, readBody: BodyReader, options: ExtenderServerOptions): Promise<Answer> {
  const path = request.url?.split("?")[0] ?? "/";
  switch (path) {
    case "/filter":
    case "/prioritize":
      return question(request, readBody, path === "/filter" ? "filter" : "prioritize", options);
    default:
      return plain(404, "not found; there are /filter and /prioritize");
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
  options: ExtenderServerOptions,
): Promise<Answer> {
  const { pods, metrics, notReady } = options;
  if (request.method !== "POST") return plain(405, `/${verb} is asked by POST`);
  try {
    const body = await readBody(request);
    const args = readArgs(body);
    const waitsFor = notReady();
    // Not an empty list: that would say that no node fits.
    if (waitsFor !== undefined) return plain(503, `not ready: ${waitsFor}`);
    await pods.seen(args.pod, body.length);
    if (verb === "prioritize") return json(JSON.stringify(priorityList(prioritized(args, options))));
    const answer = filtered(args, options);
    metrics.filtered(answer);
    return json(JSON.stringify(filterResult(args, answer)));
  } catch (error) {
    if (error instanceof WireError) return plain(400, error.message);
    if (error instanceof BodyRefused)
      return plain(error.status, `${error.message}; nodeCacheCapable: true keeps questions small`);
    if (request.destroyed && !request.complete) return plain(400, "the request ended before its body did");
    throw error;
  }
}

/** Of the pod as it is seen, never as it came: an answer holds room. */
function filtered({ pod, nodeNames }: ExtenderArgs, options: ExtenderServerOptions): FilterAnswer {
  const { pods, placement, metrics, clock } = options;
  const seen = pods.find(pod);
  if (seen !== undefined) return placement.filter(seen, nodeNames, clock.nowMs());
  metrics.notThere();
  return { fits: [], fitFailures: [], refusal: NOT_THERE };
}

function prioritized(
  { pod, nodeNames }: ExtenderArgs,
  { pods, placement, metrics, clock }: ExtenderServerOptions,
): readonly ScoredNode[] {
  const seen = pods.find(pod);
  if (seen !== undefined) return placement.prioritize(seen, nodeNames, clock.nowMs());
  metrics.notThere();
  return nodeNames.map((nodeName) => ({ nodeName, score: 0 }));
}

function plain(status: number, sentence: string): Answer {
  return { status, type: "text/plain", body: `${sentence}\n` };
}

function json(body: string): Answer {
  return { status: 200, type: "application/json", body };
}

function listen(server: Server | TlsServer, { host, port }: ExtenderServerOptions): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once("error", reject);
    server.listen(port, host, () => {
      server.off("error", reject);
      resolve();
    });
  });
}

/** The extender's certificate, from its Secret: the operator's leader makes and renews it. A change holds for new connections. */
interface ExtenderCertificate {
  /** False: no handshake succeeds yet. */
  isShown(): boolean;
  start(): void;
  stop(): Promise<void>;
}

export function createExtenderCertificate(
  client: KubeClient,
  namespace: string,
  replace: (pair: StoredPair) => void,
  log: Logger,
): ExtenderCertificate {
  let isShown = false;
  const select = { namespace, fieldSelector: `metadata.name=${EXTENDER_SECRETS.extender}` };
  const reflector = createReflector({ client, resource: SECRETS, log, select });
  const show = (secret: Secret): void => {
    isShown = showSecret(secret, replace, log) || isShown;
  };
  reflector.subscribe({ added: show, updated: show });
  return { isShown: () => isShown, start: reflector.start, stop: reflector.stop };
}
