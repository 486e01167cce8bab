// The slow path's source: a handful of global queries, whatever the number of volumes, joined in memory by namespace and claim.
// Source of the wire format: prometheus.io/docs/prometheus/latest/querying/api (instant and range queries).
import { z } from "zod";
import { formatBytes, MIB } from "../../units/quantity.ts";
import type { HourlyMaximum } from "../facts/usage-history.ts";

/** What one claim's series say; a figure that Prometheus does not have is absent, never 0. */
export interface PrometheusReading {
  /** When it was scraped, by Prometheus' clock: it names the scrape, and says nothing on any other clock. */
  readonly scrapedAtMs: number;
  /** How old the scrape was when Prometheus answered, by the same clock. */
  readonly ageMs: number;
  readonly capacityBytes: number;
  readonly availableBytes: number;
  readonly inodesTotal: number | undefined;
  readonly inodesUsed: number | undefined;
}

export interface PrometheusSource {
  /**
   * Readings by "namespace/claim". Contradictory ones (two series for one claim, parts of two scrapes, or a scrape from after the answer)
   * are left out.
   */
  readings(): Promise<Map<string, PrometheusReading>>;
  /**
   * Hourly maxima of used bytes over the last 7 days, by "namespace/claim". Of an hour of which several series tell, because the volume
   * has moved to another node or an agent has got another address, the largest counts: a peak is never hidden by what contradicts it.
   */
  hourlyMaxima(nowMs: number): Promise<Map<string, HourlyMaximum[]>>;
}

/** The slow path failing: the message says what was asked and what came back. */
export class PrometheusError extends Error {
  override name = "PrometheusError";
}

const QUERY_LIMIT_MS = 10_000;
/** One series takes about 300 bytes: several times what 100,000 claims have. */
const ANSWER_BYTES_MAX = 128 * MIB;
const HOUR_MS = 3_600_000;
const BACKFILL_HOURS = 7 * 24;

const series = z.object({
  metric: z.record(z.string(), z.string()),
  value: z.tuple([z.number(), z.string()]).optional(),
  values: z.array(z.tuple([z.number(), z.string()])).optional(),
});
type Series = z.infer<typeof series>;
const response = z.object({ status: z.literal("success"), data: z.object({ result: z.array(series) }) });

/** Of one answer. */
interface AnswerLimits {
  /** From its question to its last byte. */
  readonly ms: number;
  readonly bytes: number;
}

const LIMITS: AnswerLimits = { ms: QUERY_LIMIT_MS, bytes: ANSWER_BYTES_MAX };

export function createPrometheusSource(baseUrl: string, limits = LIMITS): PrometheusSource {
  const ask = (path: string, parameters: Record<string, string>): Promise<Series[]> =>
    query(baseUrl, path, parameters, limits);
  const instant = async (expression: string): Promise<Map<string, number>> =>
    byClaim(await ask("query", { query: expression }), ([, text]) => Number(text));
  /** How many seconds before its answer Prometheus scraped the metric, and when. */
  const scrapes = async (metric: string): Promise<Map<string, Scrape>> =>
    byClaim(await ask("query", { query: `timestamp(${metric})` }), ([answeredAt, scrapedAt]) => ({
      atSeconds: Number(scrapedAt),
      ageSeconds: answeredAt - Number(scrapedAt),
    }));
  return {
    readings: async () => {
      const [capacity, available, capacityAt, availableAt, inodes, inodesUsed] = await Promise.all([
        instant("tidemark_filesystem_capacity_bytes"),
        instant("tidemark_filesystem_available_bytes"),
        scrapes("tidemark_filesystem_capacity_bytes"),
        scrapes("tidemark_filesystem_available_bytes"),
        instant("tidemark_filesystem_inodes"),
        instant("tidemark_filesystem_inodes_used"),
      ]);
      const readings = new Map<string, PrometheusReading>();
      for (const [claim, capacityBytes] of capacity) {
        const scrape = capacityAt.get(claim);
        const availableBytes = available.get(claim);
        if (scrape === undefined || availableBytes === undefined) continue;
        if (availableAt.get(claim)?.atSeconds !== scrape.atSeconds || !(scrape.ageSeconds >= 0)) continue;
        readings.set(claim, {
          scrapedAtMs: scrape.atSeconds * 1000,
          ageMs: scrape.ageSeconds * 1000,
          capacityBytes,
          availableBytes,
          inodesTotal: inodes.get(claim),
          inodesUsed: inodesUsed.get(claim),
        });
      }
      return readings;
    },
    hourlyMaxima: async (nowMs) => {
      const endMs = Math.floor(nowMs / HOUR_MS) * HOUR_MS;
      const found = await ask("query_range", {
        query: "max_over_time(tidemark_filesystem_used_bytes[1h])",
        start: String((endMs - BACKFILL_HOURS * HOUR_MS) / 1000),
        end: String(endMs / 1000),
        step: "3600",
      });
      return joinedMaxima(found);
    },
  };
}

function claimOf(one: Series): string {
  return `${one.metric["namespace"] ?? ""}/${one.metric["persistentvolumeclaim"] ?? ""}`;
}

function joinedMaxima(found: readonly Series[]): Map<string, HourlyMaximum[]> {
  const claims = new Map<string, Map<number, HourlyMaximum>>();
  for (const one of found) {
    const claim = claimOf(one);
    const hours = claims.get(claim) ?? new Map<number, HourlyMaximum>();
    claims.set(claim, hours);
    for (const hour of maximaOf(one)) {
      const other = hours.get(hour.hourStartMs);
      if (other === undefined || other.usedBytes < hour.usedBytes) hours.set(hour.hourStartMs, hour);
    }
  }
  return new Map([...claims].map(([claim, hours]) => [claim, [...hours.values()]]));
}

// The value at an instant covers the hour before it. What is no possible use is left out before series are joined: else the largest of an
// hour would be one that the history refuses, and the hour's real peak were lost with it.
function maximaOf(one: Series): HourlyMaximum[] {
  return (one.values ?? [])
    .map(([atSeconds, text]) => ({ hourStartMs: atSeconds * 1000 - HOUR_MS, usedBytes: Number(text) }))
    .filter(({ usedBytes }) => usedBytes >= 0 && usedBytes <= Number.MAX_SAFE_INTEGER);
}

interface Scrape {
  readonly atSeconds: number;
  readonly ageSeconds: number;
}

// A claim with two series is contradictory: nothing is known about it.
function byClaim<T>(
  found: readonly Series[],
  read: (value: readonly [atSeconds: number, text: string]) => T,
): Map<string, T> {
  const values = new Map<string, T>();
  const twice = new Set<string>();
  for (const one of found) {
    const claim = claimOf(one);
    if (values.has(claim)) twice.add(claim);
    values.set(claim, read(one.value ?? [Number.NaN, "NaN"]));
  }
  for (const claim of twice) values.delete(claim);
  return values;
}

async function query(
  baseUrl: string,
  path: string,
  parameters: Record<string, string>,
  limits: AnswerLimits,
): Promise<Series[]> {
  const url = `${baseUrl}/api/v1/${path}`;
  const asked = `${parameters["query"] ?? ""} at ${baseUrl}`;
  const { status, text } = await post(url, parameters, limits).catch((error: unknown) => {
    throw new PrometheusError(`no answer to ${asked}: ${String(error)}`, { cause: error });
  });
  const parsed = response.safeParse(jsonOf(text));
  if (!parsed.success) throw new PrometheusError(`status ${status} to ${asked}: ${JSON.stringify(text.slice(0, 300))}`);
  return parsed.data.data.result;
}

async function post(
  url: string,
  parameters: Record<string, string>,
  limits: AnswerLimits,
): Promise<{ readonly status: number; readonly text: string }> {
  const signal = AbortSignal.timeout(limits.ms);
  const answer = await fetch(url, { method: "POST", body: new URLSearchParams(parameters), signal });
  const parts: Uint8Array[] = [];
  let bytes = 0;
  const body: AsyncIterable<Uint8Array> | null = answer.body;
  for await (const part of body ?? []) {
    bytes += part.byteLength;
    if (bytes > limits.bytes) throw new Error(`it has more than ${formatBytes(limits.bytes)}`);
    parts.push(part);
  }
  return { status: answer.status, text: Buffer.concat(parts).toString("utf8") };
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
