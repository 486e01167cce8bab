// Every evaluation interval: what Prometheus knows goes into the registry, and volumes are decided. Prometheus failing makes
// metrics stale, which stops shrinks; it never stops the fast path.
import { type Clock, instantOf } from "../../platform/process/clock.ts";
import type { Logger } from "../../platform/process/log.ts";
import type { HourlyMaximum } from "../facts/usage-history.ts";
import type { PrometheusSource } from "../gather/prometheus/prometheus.ts";
import { PrometheusError } from "../gather/prometheus/prometheus-server.ts";
import type { VolumeRegistry } from "../gather/volume-registry.ts";

export interface SlowPathOptions {
  /** Undefined: no Prometheus is configured; volumes are still decided on what agents sampled. */
  readonly prometheus: PrometheusSource | undefined;
  readonly registry: VolumeRegistry;
  /** Of all volumes, as "namespace/claim". */
  readonly claims: () => readonly string[];
  /** Volume handles of a "namespace/claim". */
  readonly handlesOf: (claim: string) => readonly string[];
  readonly evaluateAll: () => Promise<void>;
  readonly intervalMs: number;
  readonly scrapeIntervalMs: number;
  readonly clock: Clock;
  readonly log: Logger;
  readonly onCycle: (durationMs: number, outcome: "done" | "failed") => void;
}

export interface SlowPath {
  start(): void;
  stop(): Promise<void>;
  /** A configured Prometheus has not answered for three intervals. */
  metricsStale(monotonicMs: number): boolean;
}

const STALE_INTERVALS = 3;
/** Readings that are taken in before others get their turn. */
const TURN_READINGS = 1000;
/** Claims whose week is asked for in one question: about 4 MB. */
const PAGE_CLAIMS = 500;
const NO_HISTORY = "Prometheus gave no history of these claims; windows begin with what is measured from now on";

export function createSlowPath(options: SlowPathOptions): SlowPath {
  const { prometheus, registry, intervalMs, log } = options;
  let answeredAtMs = Number.NEGATIVE_INFINITY;
  const backfill = createBackfill(options);
  let timer: NodeJS.Timeout | undefined;
  let running: Promise<void> = Promise.resolve();
  let stopped = false;

  const scrape = async (source: PrometheusSource): Promise<void> => {
    // Readings never wait for it: what it brings only lets a shrink happen sooner.
    backfill.goOn(source);
    const { at, byClaim } = await source.readings();
    let taken = 0;
    for (const [claim, reading] of byClaim) {
      for (const handle of options.handlesOf(claim)) registry.scraped(handle, reading, options.scrapeIntervalMs, at);
      taken += 1;
      if (taken % TURN_READINGS === 0) await nextTurn();
    }
    answeredAtMs = at.monotonicMs;
  };
  const cycle = async (): Promise<void> => {
    const startMs = performance.now();
    let outcome: "done" | "failed" = "done";
    if (prometheus !== undefined)
      await scrape(prometheus).catch((error: unknown) => {
        outcome = "failed";
        if (stopped) return; // it was given up
        log.warn(
          { err: error, known: error instanceof PrometheusError },
          "Prometheus gave no readings; nothing shrinks on stale metrics",
        );
      });
    await options.evaluateAll();
    options.onCycle(performance.now() - startMs, outcome);
  };
  const schedule = (delayMs: number): void => {
    if (stopped) return;
    timer = setTimeout(() => {
      running = cycle().finally(() => schedule(intervalMs));
    }, delayMs);
  };
  return {
    start: () => schedule(0),
    stop: async () => {
      stopped = true;
      clearTimeout(timer);
      const ending = Promise.all([running, backfill.stop()]);
      await prometheus?.close();
      await ending;
    },
    metricsStale: (atMs) => prometheus !== undefined && atMs - answeredAtMs > STALE_INTERVALS * intervalMs,
  };
}

/** What Prometheus remembers of the last week, page by page; a page that failed is asked for again with the next round. */
function createBackfill({ claims, registry, handlesOf, clock, log }: SlowPathOptions) {
  let left: (readonly string[])[] | undefined;
  let running: Promise<void> | undefined;
  let stopped = false;
  const takePage = async (source: PrometheusSource, page: readonly string[]): Promise<void> => {
    const { nowMs, monotonicMs } = instantOf(clock);
    const onOurClock = ({ hourStartMs, usedBytes }: HourlyMaximum): HourlyMaximum => ({
      hourStartMs: hourStartMs + (monotonicMs - nowMs),
      usedBytes,
    });
    for (const [claim, hours] of await source.hourlyMaxima(page, nowMs))
      for (const handle of handlesOf(claim)) registry.get(handle).history.backfill(hours.map(onOurClock), monotonicMs);
  };
  const takeAll = async (source: PrometheusSource): Promise<void> => {
    left ??= pagesOf([...claims()].sort());
    for (let page = left.shift(); page !== undefined && !stopped; page = left.shift()) {
      const asked = page;
      await takePage(source, asked).catch((err: unknown) => {
        // Behind all others: one that always fails keeps no other away.
        left?.push(asked);
        if (!stopped) log.warn({ err, from: asked[0], to: asked.at(-1) }, NO_HISTORY);
        throw err;
      });
    }
  };
  return {
    goOn: (source: PrometheusSource): void => {
      if (left?.length === 0) return;
      running ??= takeAll(source)
        .catch(() => undefined)
        .finally(() => {
          running = undefined;
        });
    },
    stop: async (): Promise<void> => {
      stopped = true;
      await running;
    },
  };
}

function pagesOf(claims: readonly string[]): (readonly string[])[] {
  const pages: (readonly string[])[] = [];
  for (let start = 0; start < claims.length; start += PAGE_CLAIMS) pages.push(claims.slice(start, start + PAGE_CLAIMS));
  return pages;
}

function nextTurn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
