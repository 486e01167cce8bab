// What every process serves over HTTP: /metrics for Prometheus, /healthz and /readyz for kubelet. It reads, it never acts. What is for
// this machine only is not for the web pages that a browser on it shows. Where readers of metrics are asked for a token, all of it is
// HTTPS.
import { createServer, type IncomingMessage, type RequestListener } from "node:http";
import { createServer as createTlsServer } from "node:https";
import type { AddressInfo, Server as NetServer } from "node:net";
import { collectDefaultMetrics, Registry } from "prom-client";
import { acceptInTurns } from "../certificates/handshake-line.ts";
import { isLoopback } from "../flags.ts";
import { limitConnections } from "../http/client-limits.ts";
import type { SecuredMetrics } from "./secured-metrics.ts";

/**
 * Another JSON page: undefined when the path is not its own. It is served to this machine only (a port-forward comes from there, too),
 * since it may show namespaces that the asker must not see.
 */
export type Page = (path: string) => { readonly status: number; readonly body: unknown } | undefined;

interface MetricsServerOptions {
  /** A loopback address: all of it is for this machine only. */
  readonly host: string;
  /** 0 picks a free port. */
  readonly port: number;
  readonly registry: Registry;
  /** Undefined when healthy, else what is wrong. */
  readonly unhealthy: () => string | undefined;
  /** Undefined when ready, else what it waits for. */
  readonly notReady: () => string | undefined;
  readonly page?: Page;
  /** Undefined: metrics are for all who reach the port, in the clear. */
  readonly secured?: SecuredMetrics | undefined;
}

/** Longer than the most patient interval of Prometheus or kubelet: neither has to reconnect, nor meets a closing connection. */
const KEEP_ALIVE_MS = 90_000;
/** kubelet opens one for each probe, and Prometheus keeps a few. */
const CONNECTIONS_LIMIT = 128;
const HANDSHAKE_LIMIT_MS = 10_000;

/** How old a page of metrics may be: less than between two looks of any Prometheus. */
const SHARED_MS = 1000;

export interface MetricsServer {
  readonly port: number;
  close(): Promise<void>;
}

export async function startMetricsServer(options: MetricsServerOptions): Promise<MetricsServer> {
  const { registry, secured } = options;
  const metrics = shared(() => registry.metrics());
  const listener: RequestListener = (request, response) => {
    answer(request, options, metrics).then(
      ({ status, type, body, headers }) => response.writeHead(status, { "content-type": type, ...headers }).end(body),
      (error: unknown) => response.writeHead(500, { "content-type": "text/plain" }).end(String(error)),
    );
  };
  const served = secured === undefined ? serveInTheClear(listener) : await serveSecured(listener, secured);
  await listen(served.accepting, options);
  return { port: (served.accepting.address() as AddressInfo).port, close: served.close };
}

interface Served {
  readonly accepting: NetServer;
  close(): Promise<void>;
}

function serveInTheClear(listener: RequestListener): Served {
  const server = createServer(listener);
  server.keepAliveTimeout = KEEP_ALIVE_MS;
  limitConnections(server, server, CONNECTIONS_LIMIT);
  return { accepting: server, close: () => new Promise((resolve) => server.close(() => resolve())) };
}

async function serveSecured(listener: RequestListener, secured: SecuredMetrics): Promise<Served> {
  const secure = createTlsServer({ handshakeTimeout: HANDSHAKE_LIMIT_MS }, listener);
  secure.keepAliveTimeout = KEEP_ALIVE_MS;
  // Of a peer that is gone, or silent within its request: Node.js' limits for headers and requests need a server that listens itself.
  secure.timeout = KEEP_ALIVE_MS;
  const stopCertifying = await secured.certify(secure);
  const { accepting, close } = acceptInTurns(secure);
  limitConnections(accepting, secure, CONNECTIONS_LIMIT);
  return {
    accepting,
    close: () => {
      stopCertifying();
      return close();
    },
  };
}

/** One at a time, shared by all who ask by then and shortly after: its cost does not grow with the askers. */
function shared(render: () => Promise<string>): () => Promise<string> {
  let text: Promise<string> | undefined;
  const forget = (): void => {
    text = undefined;
  };
  return () => {
    if (text !== undefined) return text;
    text = render();
    text.then(() => setTimeout(forget, SHARED_MS).unref(), forget);
    return text;
  };
}

interface Answer {
  readonly status: number;
  readonly type: string;
  readonly body: string;
  readonly headers?: Readonly<Record<string, string>>;
}

async function answer(
  request: IncomingMessage,
  options: MetricsServerOptions,
  metrics: () => Promise<string>,
): Promise<Answer> {
  const refusal = webPageRefusal(request);
  if (refusal !== undefined && isLoopback(options.host)) return refused(refusal);
  const path = request.url?.split("?")[0] ?? "/";
  switch (path) {
    case "/metrics":
      return (
        (await notAllowed(request, options)) ?? {
          status: 200,
          type: options.registry.contentType,
          body: await metrics(),
        }
      );
    case "/healthz":
      return probe(options.unhealthy());
    case "/readyz":
      return probe(options.notReady());
    default:
      return other(isLoopback(request.socket.remoteAddress ?? "") ? options.page?.(path) : undefined, refusal);
  }
}

async function notAllowed(
  { headers, socket }: IncomingMessage,
  { secured }: MetricsServerOptions,
): Promise<Answer | undefined> {
  const { authorization } = headers;
  const access = (await secured?.askAccess({ authorization, address: socket.remoteAddress ?? "" })) ?? "allowed";
  if (access === "allowed") return undefined;
  const { status, reason } = access;
  const challenge = status === 401 ? { headers: { "www-authenticate": "Bearer" } } : {};
  return { status, type: "text/plain", body: `${reason}\n`, ...challenge };
}

function other(page: ReturnType<Page>, refusal: string | undefined): Answer {
  if (page === undefined)
    return { status: 404, type: "text/plain", body: "not found; there are /metrics, /healthz and /readyz\n" };
  if (refusal !== undefined) return refused(refusal);
  return { status: page.status, type: "application/json", body: `${JSON.stringify(page.body)}\n` };
}

function refused(error: string): Answer {
  return { status: 403, type: "application/json", body: `${JSON.stringify({ error })}\n` };
}

function probe(problem: string | undefined): Answer {
  return { status: problem === undefined ? 200 : 503, type: "text/plain", body: `${problem ?? "ok"}\n` };
}

function listen(server: NetServer, { host, port }: MetricsServerOptions): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once("error", reject);
    server.listen(port, host, () => {
      // From here on an error is a connection's that could not be taken: unheard, it would end the process. Who reads metrics comes again.
      server.off("error", reject).on("error", () => {});
      resolve();
    });
  });
}

// Web pages in a browser on this machine reach loopback, too. Programs send no Origin, and a page that had its name pointed here (DNS
// rebinding) is recognised by the Host.

const LOOPBACK_NAMES = ["127.0.0.1", "localhost", "[::1]"];

/** Why a request that came over loopback is a web page's, as a message; undefined: a program on this machine made it. */
export function webPageRefusal({ headers }: Pick<IncomingMessage, "headers">): string | undefined {
  const name = (headers.host ?? "").replace(/:\d+$/, "");
  if (headers.origin === undefined && LOOPBACK_NAMES.includes(name)) return undefined;
  const sender = headers.origin === undefined ? `for the host "${name}"` : `from the page ${headers.origin}`;
  return `a request ${sender} is refused: this is for programs on this machine only`;
}

/** Gauges that prom-client names like counters: promtool refuses them. */
const MISNAMED_GAUGES = [
  "nodejs_active_handles_total",
  "nodejs_active_requests_total",
  "nodejs_active_resources_total",
];

/** Of the timer behind these, in milliseconds: by default 10, which is half of what a process costs at rest. */
const DELAY_INTERVAL_MS = 1000;
/** What they show is at least that timer's interval: nodejs_eventloop_lag_seconds, measured at each scrape, says it without. */
const DELAY_GAUGES = ["min", "max", "mean", "stddev", "p50", "p90", "p99"].map(
  (figure) => `nodejs_eventloop_lag_${figure}_seconds`,
);

export function createMetricsRegistry(): Registry {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry, eventLoopMonitoringPrecision: DELAY_INTERVAL_MS });
  for (const name of [...MISNAMED_GAUGES, ...DELAY_GAUGES]) registry.removeSingleMetric(name);
  return registry;
}
