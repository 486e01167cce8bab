// The slow path's source: five questions a round, whatever the number of volumes, joined in memory by namespace and claim.
// Source of the wire format: prometheus.io/docs/prometheus/latest/querying/api (instant and range queries).
import { type Clock, type Instant, instantOf } from "../../../platform/process/clock.ts";
import type { ReceivedReading } from "../../facts/facts.ts";
import type { HourlyMaximum } from "../../facts/usage-history.ts";
import { type PrometheusConnection, PrometheusError } from "./prometheus-server.ts";
import type { RawSeries } from "./series-stream.ts";

/** What one claim's series say; a figure that Prometheus does not have is absent, never 0. */
export interface PrometheusReading
  extends Pick<ReceivedReading, "sampledAtMs" | "capacityBytes" | "availableBytes" | "inodesTotal" | "inodesUsed"> {
  /** How old the scrape was when Prometheus said what time it is, by the same clock that says when it was: Prometheus'. */
  readonly ageMs: number;
}

interface PrometheusReadings {
  /** On our clock, right before Prometheus said what time it is: ages are of this instant. */
  readonly at: Instant;
  /** By "namespace/claim". */
  readonly byClaim: ReadonlyMap<string, PrometheusReading>;
}

export interface PrometheusSource {
  /** Contradictory readings (two series for one claim, or a scrape from after the answer) are left out. */
  readings(): Promise<PrometheusReadings>;
  /**
   * Hourly maxima of used bytes over the last 7 days of these claims ("namespace/claim"), by claim. Several series may cover one hour, after
   * the volume has moved or an agent has got another address. The largest counts: a contradiction never hides a peak.
   */
  hourlyMaxima(claims: readonly string[], nowMs: number): Promise<Map<string, HourlyMaximum[]>>;
  close(): Promise<void>;
}

const HOUR_MS = 3_600_000;
const BACKFILL_HOURS = 7 * 24;
/** Two questions that are asked one after the other see a common scrape as long as each looks back at least two. */
const LOOKBACK_SCRAPES = 3;
/** A series that is older than another one of its claim by more than this many scrapes has ended; before that they contradict each other. */
const ENDED_SCRAPES = 1.5;

export function createPrometheusSource(
  connection: PrometheusConnection,
  scrapeIntervalMs: number,
  clock: Clock,
): PrometheusSource {
  const lookback = `${Math.ceil((LOOKBACK_SCRAPES * scrapeIntervalMs) / 1000)}s`;
  /** The last scrapes of a metric, by claim. */
  const scrapes = async (metric: string): Promise<Map<string, Scrapes>> => {
    const found = new Map<string, Scrapes>();
    const query = `${metric}[${lookback}]`;
    await connection.ask("query", { query }, (raw) => addSeries(found, raw, (ENDED_SCRAPES * scrapeIntervalMs) / 1000));
    return found;
  };
  return {
    readings: async () => {
      const [capacity, available] = await Promise.all([
        scrapes("tidemark_filesystem_capacity_bytes"),
        scrapes("tidemark_filesystem_available_bytes"),
      ]);
      const [inodes, inodesUsed] = await Promise.all([
        scrapes("tidemark_filesystem_inodes"),
        scrapes("tidemark_filesystem_inodes_used"),
      ]);
      // Last, so that no scrape which was seen is younger than the answer; only then it is Prometheus' clock that has jumped.
      const at = instantOf(clock);
      const atSeconds = await timeOf(connection);
      return { at, byClaim: joined({ capacity, available, inodes, inodesUsed }, atSeconds) };
    },
    hourlyMaxima: async (claims, nowMs) => {
      const maxima = new Map<string, HourlyMaximum[]>();
      // Hours that end now: by the clock's hours the one that has begun would be missing, and with it every window.
      const endSeconds = Math.floor(nowMs / 1000);
      const parameters = {
        query: `max by (namespace, persistentvolumeclaim) (${possibleMaximaOf(claims)})`,
        start: String(endSeconds - BACKFILL_HOURS * (HOUR_MS / 1000)),
        end: String(endSeconds),
        step: "3600",
      };
      await connection.ask("query_range", parameters, (series) => maxima.set(claimOf(series), hoursOf(series)));
      return maxima;
    },
    close: () => connection.close(),
  };
}

/** Throws where every scrape is from after `atSeconds`: one may be a lie, but of all nothing would be read, and nothing be said of it. */
function joined(
  figures: Readonly<Record<"capacity" | "available" | "inodes" | "inodesUsed", ReadonlyMap<string, Scrapes>>>,
  atSeconds: number,
): Map<string, PrometheusReading> {
  const byClaim = new Map<string, PrometheusReading>();
  let tooNew = 0;
  for (const [claim, capacity] of figures.capacity) {
    const scraped = newestCommon(capacity, figures.available.get(claim));
    if (scraped === undefined) continue;
    if (scraped.atSeconds > atSeconds) {
      tooNew += 1;
      continue;
    }
    byClaim.set(claim, {
      sampledAtMs: scraped.atSeconds * 1000,
      ageMs: (atSeconds - scraped.atSeconds) * 1000,
      capacityBytes: scraped.first,
      availableBytes: scraped.second,
      inodesTotal: valueAt(figures.inodes.get(claim), scraped.atSeconds),
      inodesUsed: valueAt(figures.inodesUsed.get(claim), scraped.atSeconds),
    });
  }
  if (byClaim.size === 0 && tooNew > 0)
    throw new PrometheusError(`all ${tooNew} scrapes are of after the time that it says (${atSeconds}): set its clock`);
  return byClaim;
}

/** Seconds. A scalar; VictoriaMetrics makes a series of it. */
async function timeOf(connection: PrometheusConnection): Promise<number> {
  let value: unknown;
  const scalar = await connection.ask("query", { query: "time()" }, (series) => {
    value = series["value"];
  });
  const [, text] = listOf(value ?? scalar);
  const seconds = Number(text);
  if (!(seconds > 0)) throw new PrometheusError("the answer to time() is not a time");
  return seconds;
}

/** [atSeconds, value, …], oldest first. "Contradicting": two series of one claim go on at the same time; nothing is known about it. */
type Scrapes = readonly number[] | "Contradicting";

function addSeries(found: Map<string, Scrapes>, series: RawSeries, endedSeconds: number): void {
  const claim = claimOf(series);
  const values = pointsOf(series);
  const known = found.get(claim);
  if (known === undefined) return void found.set(claim, values);
  if (known === "Contradicting") return;
  const laterSeconds = newestOf(values) - newestOf(known);
  if (Math.abs(laterSeconds) <= endedSeconds) found.set(claim, "Contradicting");
  else if (laterSeconds > 0) found.set(claim, values);
}

function newestOf(points: readonly number[]): number {
  return points.at(-2) ?? Number.NEGATIVE_INFINITY;
}

/** The newest scrape that both have: figures of two scrapes say nothing together, since the size may have changed in between. */
function newestCommon(
  first: Scrapes,
  second: Scrapes | undefined,
): { readonly atSeconds: number; readonly first: number; readonly second: number } | undefined {
  if (first === "Contradicting") return undefined;
  for (let at = first.length - 2; at >= 0; at -= 2) {
    const atSeconds = first[at] ?? Number.NaN;
    const other = valueAt(second, atSeconds);
    if (other !== undefined) return { atSeconds, first: first[at + 1] ?? Number.NaN, second: other };
  }
  return undefined;
}

function valueAt(scrapes: Scrapes | undefined, atSeconds: number): number | undefined {
  if (scrapes === undefined || scrapes === "Contradicting") return undefined;
  for (let at = scrapes.length - 2; at >= 0; at -= 2) if (scrapes[at] === atSeconds) return scrapes[at + 1];
  return undefined;
}

function claimOf({ metric }: RawSeries): string {
  const { namespace = "", persistentvolumeclaim = "" } = (metric ?? {}) as Readonly<Record<string, unknown>>;
  return `${String(namespace)}/${String(persistentvolumeclaim)}`;
}

/** Checked by hand: a schema would take longer for 100,000 series than all that is done with them. */
function pointsOf({ values }: RawSeries): number[] {
  if (!Array.isArray(values)) throw new PrometheusError("a series of the answer has no values");
  return values.flatMap((point: unknown) => {
    const [atSeconds, text] = listOf(point);
    if (typeof atSeconds === "number" && typeof text === "string") return [atSeconds, Number(text)];
    throw new PrometheusError("a value of the answer is not [seconds, text]");
  });
}

function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

// Impossible use is left out before series are joined: else the largest of an hour would be one that the history refuses, and the hour's
// real peak would be lost with it. The names of a namespace may be those of another: what comes for claims that were not asked for is
// little, and nothing is done with it.
function possibleMaximaOf(claims: readonly string[]): string {
  const parts = claims.map((claim) => claim.split("/"));
  const namespaces = oneOf(parts.map(([namespace = ""]) => namespace));
  const names = oneOf(parts.map(([, name = ""]) => name));
  const used = `tidemark_filesystem_used_bytes{namespace=~"${namespaces}",persistentvolumeclaim=~"${names}"}`;
  return `max_over_time(${used}[1h]) >= 0 <= ${Number.MAX_SAFE_INTEGER}`;
}

/** A name of Kubernetes has no other character than the dot that means something in a regular expression. */
function oneOf(names: readonly string[]): string {
  return [...new Set(names)].map((name) => name.replaceAll(".", "[.]")).join("|");
}

/** The value at an instant covers the hour before it. */
function hoursOf(series: RawSeries): HourlyMaximum[] {
  const points = pointsOf(series);
  const hours: HourlyMaximum[] = [];
  for (let at = 0; at < points.length; at += 2)
    hours.push({ hourStartMs: (points[at] ?? Number.NaN) * 1000 - HOUR_MS, usedBytes: points[at + 1] ?? Number.NaN });
  return hours;
}
