// Every evaluation interval: what Prometheus knows goes into the registry, and every volume is decided. Prometheus failing makes
// metrics stale, which stops shrinks; it never stops the fast path.
import { type Clock, instantOf } from "../../process/clock.ts";
import type { Logger } from "../../process/log.ts";
import type { HourlyMaximum } from "../facts/usage-history.ts";
import { PrometheusError, type PrometheusSource } from "../gather/prometheus.ts";
import type { VolumeRegistry } from "../gather/volume-registry.ts";

export interface SlowPathOptions {
  /** Undefined: no Prometheus is configured; volumes are still decided on what agents sampled. */
  readonly prometheus: PrometheusSource | undefined;
  readonly registry: VolumeRegistry;
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

export function createSlowPath(options: SlowPathOptions): SlowPath {
  const { prometheus, registry, intervalMs, clock, log } = options;
  let answeredAtMs = Number.NEGATIVE_INFINITY;
  let backfilled = false;
  let timer: NodeJS.Timeout | undefined;
  let running: Promise<void> = Promise.resolve();
  let stopped = false;

  const backfill = async (source: PrometheusSource): Promise<void> => {
    const { nowMs, monotonicMs } = instantOf(clock);
    const onOurClock = ({ hourStartMs, usedBytes }: HourlyMaximum): HourlyMaximum => ({
      hourStartMs: hourStartMs + (monotonicMs - nowMs),
      usedBytes,
    });
    for (const [claim, hours] of await source.hourlyMaxima(nowMs))
      for (const handle of options.handlesOf(claim))
        registry.get(handle).history.backfill(hours.map(onOurClock), monotonicMs);
    backfilled = true;
  };
  const scrape = async (source: PrometheusSource): Promise<void> => {
    if (!backfilled) await backfill(source);
    // Before the question: what has come is older than it was when Prometheus answered, never younger.
    const asked = instantOf(clock);
    const readings = await source.readings();
    for (const [claim, reading] of readings)
      for (const handle of options.handlesOf(claim)) registry.scraped(handle, reading, options.scrapeIntervalMs, asked);
    answeredAtMs = asked.monotonicMs;
  };
  const cycle = async (): Promise<void> => {
    const startMs = performance.now();
    let outcome: "done" | "failed" = "done";
    if (prometheus !== undefined)
      await scrape(prometheus).catch((error: unknown) => {
        outcome = "failed";
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
      await running;
    },
    metricsStale: (atMs) => prometheus !== undefined && atMs - answeredAtMs > STALE_INTERVALS * intervalMs,
  };
}
