// Where Prometheus is, how the engine shows who it is, and one question over HTTP. Thanos, Mimir and VictoriaMetrics answer the same API.
// Redirects are not followed: credentials would go where they lead.
import { readFile } from "node:fs/promises";
import { isDeepStrictEqual } from "node:util";
import { Pool } from "undici";
import * as z from "zod";
import { MIB } from "../../../contracts/quantities/quantity.ts";
import { type AnswerText, type RawSeries, readSeries } from "./series-stream.ts";

export interface PrometheusServer {
  /** http or https, without credentials; a path prefix stays ("http://mimir:8080/prometheus"). */
  readonly url: string;
  /** Files are read before each question, so that what rotates is followed. */
  readonly tokenFile?: string | undefined;
  readonly user?: string | undefined;
  readonly passwordFile?: string | undefined;
  /** PEM; undefined: the system's authorities. */
  readonly caFile?: string | undefined;
  /** The client's certificate and key, PEM. */
  readonly certificateFile?: string | undefined;
  readonly keyFile?: string | undefined;
  /** Sent with each question, such as X-Scope-OrgID. */
  readonly headers?: Readonly<Record<string, string>> | undefined;
}

/** The slow path failing: the message says what was asked and what came back. */
export class PrometheusError extends Error {
  override name = "PrometheusError";
}

/** Of one answer. */
export interface AnswerLimits {
  /** From its question to its last byte. */
  readonly ms: number;
  /** It is read in a stream: this bounds what a server that never ends can cost, not memory. */
  readonly bytes: number;
}

export const ANSWER_LIMITS: AnswerLimits = { ms: 30_000, bytes: 512 * MIB };

export interface PrometheusConnection {
  /**
   * `take` gets each series of the answer; the answer counts only once this has resolved. The value is that of a scalar. Rejects with a
   * PrometheusError; an answer with warnings is one, since it may be part of the truth (Thanos, with a store that is away).
   */
  ask(path: string, parameters: Readonly<Record<string, string>>, take?: (series: RawSeries) => void): Promise<unknown>;
  /** Questions under way are given up. */
  close(): Promise<void>;
}

const answer = z.object({
  status: z.literal("success"),
  data: z.object({ result: z.unknown() }),
  warnings: z.array(z.string()).max(0).optional(),
  isPartial: z.literal(false).optional(),
});
const MESSAGE_LENGTH_MAX = 300;

/**
 * Thanos, and a cluster of VictoriaMetrics: an error instead of an answer that lacks a store. VictoriaMetrics: time() of now, as the samples
 * are, and hours that end where they are asked to; else it moves both. A server that does not know one ignores it.
 */
const OF_OTHERS = { partial_response: "false", deny_partial_response: "1", nocache: "1" } as const;

export function connectToPrometheus(server: PrometheusServer, limits = ANSWER_LIMITS): PrometheusConnection {
  const { origin, pathname } = new URL(server.url);
  const prefix = pathname.replace(/\/$/, "");
  let open: { readonly tls: Tls; readonly pool: Pool } | undefined;
  /** The pool for the TLS material of this moment: when it rotates, new connections use the new one, and the old drain. */
  const poolFor = (tls: Tls): Pool => {
    if (open !== undefined && isDeepStrictEqual(open.tls, tls)) return open.pool;
    void open?.pool.close();
    open = { tls, pool: new Pool(origin, { connect: { ...tls }, connections: CONNECTIONS_MAX }) };
    return open.pool;
  };
  const post = async (
    path: string,
    parameters: Readonly<Record<string, string>>,
    take: (series: RawSeries) => void,
  ): Promise<AnswerText & { readonly status: number }> => {
    const [tls, authorization] = await Promise.all([readTls(server), readAuthorization(server)]);
    const { statusCode, body } = await poolFor(tls).request({
      method: "POST",
      path: `${prefix}/api/v1/${path}`,
      body: new URLSearchParams({ ...parameters, ...OF_OTHERS }).toString(),
      headers: { ...server.headers, ...authorization, "content-type": "application/x-www-form-urlencoded" },
      signal: AbortSignal.timeout(limits.ms),
    });
    return { status: statusCode, ...(await readSeries(body, limits.bytes, take)) };
  };
  return {
    ask: async (path, parameters, take = () => undefined) => {
      const asked = `${parameters["query"] ?? ""} at ${server.url}`;
      const { status, envelope } = await post(path, parameters, take).catch((error: unknown) => {
        throw new PrometheusError(`no answer to ${asked}: ${String(error)}`, { cause: error });
      });
      const parsed = answer.safeParse(jsonOf(envelope));
      if (status === 200 && parsed.success) return parsed.data.data.result;
      throw new PrometheusError(
        `status ${status} to ${asked}: ${JSON.stringify(envelope.slice(0, MESSAGE_LENGTH_MAX))}`,
      );
    },
    close: async () => {
      await open?.pool.destroy();
    },
  };
}

const CONNECTIONS_MAX = 4;

interface Tls {
  readonly ca?: string;
  readonly cert?: string;
  readonly key?: string;
}

async function readTls({ caFile, certificateFile, keyFile }: PrometheusServer): Promise<Tls> {
  const [ca, cert, key] = await Promise.all([caFile, certificateFile, keyFile].map(readIfNamed));
  return {
    ...(ca === undefined ? {} : { ca }),
    ...(cert === undefined ? {} : { cert }),
    ...(key === undefined ? {} : { key }),
  };
}

async function readAuthorization({
  tokenFile,
  user,
  passwordFile,
}: PrometheusServer): Promise<{ authorization?: string }> {
  const [token, password] = await Promise.all([tokenFile, passwordFile].map(readIfNamed));
  if (token !== undefined) return { authorization: `Bearer ${token.trim()}` };
  if (user === undefined) return {};
  // An editor ends the line; that end does not belong to the password.
  const basic = Buffer.from(`${user}:${(password ?? "").replace(/\r?\n$/, "")}`).toString("base64");
  return { authorization: `Basic ${basic}` };
}

async function readIfNamed(file: string | undefined): Promise<string | undefined> {
  return file === undefined ? undefined : readFile(file, "utf8");
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
