// HTTP to the API server over persistent connections. It knows limits, time and TLS, and nothing of Kubernetes' kinds. It never retries:
// only the caller knows whether a request may be repeated.
import { isDeepStrictEqual } from "node:util";
import { type Dispatcher, Pool, ProxyAgent } from "undici";
import { KubeError } from "../kube-error.ts";
import type { ClusterConnection, ClusterCredentials, ClusterTls } from "./kube-config.ts";

export interface TransportRequest {
  readonly method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  /** With query, without host. */
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | undefined;
}

export interface TransportAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly text: string;
}

export interface TransportStream {
  readonly status: number;
  readonly headers: TransportAnswer["headers"];
  readonly chunks: AsyncIterable<Buffer>;
}

export interface Transport {
  /** The whole answer, whatever its status. Throws KubeError "Unreachable" when none came. */
  send(request: TransportRequest): Promise<TransportAnswer>;
  /** An answer that goes on until the server or `signal` ends it; has connections of its own, and no time limit once begun. */
  stream(request: TransportRequest, signal: AbortSignal): Promise<TransportStream>;
  close(): Promise<void>;
}

const REQUEST_CONNECTIONS_LIMIT = 16;
/** A watch holds its connection: each process watches fewer kinds than this. */
const WATCH_CONNECTIONS_LIMIT = 64;
/** Requests under way or waiting for a connection. */
const PENDING_REQUESTS_LIMIT = 10_000;
/** The API server refuses more than 3 MiB. */
const REQUEST_BODY_LIMIT_BYTES = 3 << 20;
/** A page of 500 objects of 128 KiB. */
const RESPONSE_BODY_LIMIT_BYTES = 64 << 20;
const CONNECT_LIMIT_MS = 10_000;
const SILENCE_LIMIT_MS = 30_000;
/** Under the two minutes or so after which API servers and load balancers close an idle connection. */
const IDLE_CONNECTION_LIMIT_MS = 30_000;
/** TCP probes: a peer that vanished is noticed while a watch is silent. */
const TCP_KEEP_ALIVE_DELAY_MS = 15_000;

export function createTransport(connection: ClusterConnection): Transport {
  const target = new URL(connection.server);
  const prefix = target.pathname.replace(/\/$/, "");
  const pools = createPools(connection, target.origin);
  let pending = 0;

  const dispatch = async (
    kind: keyof Pools,
    request: TransportRequest,
    signal?: AbortSignal,
  ): Promise<Dispatcher.ResponseData> => {
    refuseLargeBody(request);
    const { headers, pool } = await pools.current(kind);
    return pool.request({
      method: request.method,
      path: prefix + request.path,
      origin: target.origin,
      headers: { ...request.headers, ...headers },
      body: request.body ?? null,
      signal: signal ?? null,
    });
  };

  return {
    send: async (request) => {
      if (pending >= PENDING_REQUESTS_LIMIT)
        throw new KubeError("TooManyRequests", 0, `${pending} requests to ${target.origin} are pending already`);
      pending += 1;
      try {
        const answer = await dispatch("requests", request);
        return { status: answer.statusCode, headers: answer.headers, text: await answer.body.text() };
      } catch (error) {
        throw unreachable(request, target.origin, error);
      } finally {
        pending -= 1;
      }
    },
    stream: async (request, signal) => {
      try {
        const answer = await dispatch("watches", request, signal);
        return { status: answer.statusCode, headers: answer.headers, chunks: answer.body };
      } catch (error) {
        throw unreachable(request, target.origin, error);
      }
    },
    close: () => pools.close(),
  };
}

interface Pools {
  readonly requests: Dispatcher;
  readonly watches: Dispatcher;
}

/** The pools for the TLS material of this moment: when it rotates, new connections use the new one and the old drain. */
function createPools(connection: ClusterConnection, origin: string) {
  let open: (Pools & { readonly tls: ClusterTls }) | undefined;
  return {
    current: async (kind: keyof Pools) => {
      const { headers, tls } = await credentialsOf(connection);
      if (open === undefined || !isDeepStrictEqual(open.tls, tls)) {
        const retired = open;
        open = {
          tls,
          requests: createPool(connection, origin, tls, {
            connections: REQUEST_CONNECTIONS_LIMIT,
            bodyTimeout: SILENCE_LIMIT_MS,
            maxResponseSize: RESPONSE_BODY_LIMIT_BYTES,
          }),
          watches: createPool(connection, origin, tls, { connections: WATCH_CONNECTIONS_LIMIT, bodyTimeout: 0 }),
        };
        if (retired !== undefined) void Promise.allSettled([retired.requests.close(), retired.watches.close()]);
      }
      return { headers, pool: open[kind] };
    },
    close: async () => {
      await Promise.all([open?.requests.close(), open?.watches.destroy()]);
    },
  };
}

async function credentialsOf(connection: ClusterConnection): Promise<ClusterCredentials> {
  try {
    return (await connection.credentials?.()) ?? { headers: {}, tls: {} };
  } catch (cause) {
    throw new KubeError("Unauthorized", 0, `no credentials for ${connection.server}: ${reasonOf(cause)}`, { cause });
  }
}

function createPool(connection: ClusterConnection, origin: string, tls: ClusterTls, limits: Pool.Options): Dispatcher {
  const security = {
    ca: tls.ca,
    cert: tls.cert,
    key: tls.key,
    ...(tls.serverName === undefined ? {} : { servername: tls.serverName }),
    ...(tls.insecure === true ? { rejectUnauthorized: false } : {}),
  };
  const keepAlive = { timeout: CONNECT_LIMIT_MS, keepAlive: true, keepAliveInitialDelay: TCP_KEEP_ALIVE_DELAY_MS };
  const options = { ...limits, headersTimeout: SILENCE_LIMIT_MS, keepAliveTimeout: IDLE_CONNECTION_LIMIT_MS };
  return connection.proxy === undefined
    ? new Pool(origin, { ...options, connect: { ...security, ...keepAlive } })
    : new ProxyAgent({ ...options, uri: connection.proxy, requestTls: { ...security, ...keepAlive } });
}

function refuseLargeBody({ method, path, body }: TransportRequest): void {
  const sizeBytes = body === undefined ? 0 : Buffer.byteLength(body);
  if (sizeBytes > REQUEST_BODY_LIMIT_BYTES)
    throw new KubeError(
      "BadRequest",
      413,
      `${method} ${path}: the body of ${sizeBytes} bytes is over the limit of ${REQUEST_BODY_LIMIT_BYTES} bytes`,
    );
}

function unreachable({ method, path }: TransportRequest, origin: string, cause: unknown): KubeError {
  if (cause instanceof KubeError) return cause;
  const outcome = method === "GET" ? "" : "; it may or may not have been carried out";
  return new KubeError("Unreachable", 0, `${method} ${path}: no answer from ${origin}: ${reasonOf(cause)}${outcome}`, {
    cause,
  });
}

function reasonOf(cause: unknown): string {
  // A refused connection to a name with several addresses is an AggregateError without a message of its own.
  if (cause instanceof AggregateError) return cause.errors.map(reasonOf).join(", ");
  return cause instanceof Error ? cause.message || cause.name : String(cause);
}
