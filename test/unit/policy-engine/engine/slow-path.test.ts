// Whether Prometheus' figures count as stale, by what it has answered over HTTP.
import { afterEach, beforeEach, describe, expect, it } from "@jest/globals";
import { GIB, MIB } from "../../../../src/contracts/quantities/quantity.ts";
import { createSlowPath, type SlowPath } from "../../../../src/policy-engine/engine/slow-path.ts";
import { createPrometheusSource } from "../../../../src/policy-engine/gather/prometheus/prometheus.ts";
import { connectToPrometheus } from "../../../../src/policy-engine/gather/prometheus/prometheus-server.ts";
import { createVolumeRegistry } from "../../../../src/policy-engine/gather/volume-registry.ts";
import { NOW_MS } from "../../../builders/facts.ts";
import { type FakePrometheus, startFakePrometheus } from "../../../fakes/fake-prometheus.ts";
import { createRecordingLog } from "../../../fakes/recording-log.ts";
import { waitFor } from "../../../harness/wait-for.ts";

/** Each round is begun by hand: the next would begin only after the test. */
const INTERVAL_MS = 600_000;
/** The engine has run for an hour. */
const MONOTONIC_MS = 3_600_000;
const SCRAPE_INTERVAL_MS = 15_000;
const HANDLE = "fs-a";

let prometheus: FakePrometheus;
let slowPath: SlowPath;
beforeEach(async () => {
  prometheus = await startFakePrometheus();
});
afterEach(async () => {
  await slowPath.stop();
  await prometheus.stop();
});

/** One round of the slow path, from its start to the end of its evaluation. */
async function oneRound(hasPrometheus = true) {
  const registry = createVolumeRegistry();
  const outcomes: string[] = [];
  const timeLimitMs = prometheus.behaviour.startsWith("is silent") ? 500 : 30_000;
  let evaluations = 0;
  const clock = { nowMs: () => NOW_MS, monotonicMs: () => MONOTONIC_MS };
  const connection = connectToPrometheus({ url: prometheus.url }, { ms: timeLimitMs, bytes: GIB });
  slowPath = createSlowPath({
    prometheus: hasPrometheus ? createPrometheusSource(connection, SCRAPE_INTERVAL_MS, clock) : undefined,
    registry,
    claims: () => ["default/a"],
    handlesOf: (claim) => (claim === "default/a" ? [HANDLE] : []),
    evaluateAll: async () => {
      evaluations += 1;
    },
    intervalMs: INTERVAL_MS,
    scrapeIntervalMs: SCRAPE_INTERVAL_MS,
    clock,
    log: createRecordingLog().log,
    onCycle: (_durationMs, outcome) => outcomes.push(outcome),
  });
  const staleBefore = slowPath.metricsStale(MONOTONIC_MS);
  slowPath.start();
  await waitFor("the round to end", () => outcomes[0]);
  return { registry, outcome: outcomes[0], evaluations, staleBefore };
}

describe("Prometheus' figures", () => {
  it("are stale until it has answered, and again three intervals after its last answer", async () => {
    // A day behind the engine's: only the difference of its own times counts.
    prometheus.nowSeconds = NOW_MS / 1000 - 86_400;
    const atSeconds = prometheus.nowSeconds - 4;
    prometheus.series = [
      { metric: "tidemark_filesystem_capacity_bytes", claim: "a", value: String(GIB), atSeconds },
      { metric: "tidemark_filesystem_available_bytes", claim: "a", value: String(300 * MIB), atSeconds },
    ];
    const { registry, staleBefore, outcome } = await oneRound();
    expect([staleBefore, outcome, slowPath.metricsStale(MONOTONIC_MS)]).toEqual([true, "done", false]);
    expect(slowPath.metricsStale(MONOTONIC_MS + 3 * INTERVAL_MS)).toBe(false);
    expect(slowPath.metricsStale(MONOTONIC_MS + 3 * INTERVAL_MS + 1)).toBe(true);
    expect(registry.get(HANDLE).reading).toMatchObject({ capacityBytes: GIB, usedBytes: GIB - 300 * MIB });
    expect(registry.get(HANDLE).reading).toMatchObject({ takenMs: MONOTONIC_MS - 4000, aheadMs: 0 });
  });

  it.each(["fails", "is silent"] as const)(
    "are stale where it never answered since it %s, and all is decided",
    async (how) => {
      prometheus.behaviour = how;
      const { outcome, evaluations, registry } = await oneRound();
      expect([outcome, evaluations, slowPath.metricsStale(MONOTONIC_MS)]).toEqual(["failed", 1, true]);
      expect(registry.get(HANDLE).reading).toBeUndefined();
    },
  );

  it("come although it takes without end to say what was used in the last week", async () => {
    prometheus.behaviour = "is silent of history";
    prometheus.nowSeconds = NOW_MS / 1000;
    prometheus.series = [
      {
        metric: "tidemark_filesystem_capacity_bytes",
        claim: "a",
        value: String(GIB),
        atSeconds: prometheus.nowSeconds,
      },
      {
        metric: "tidemark_filesystem_available_bytes",
        claim: "a",
        value: String(MIB),
        atSeconds: prometheus.nowSeconds,
      },
    ];
    const { outcome, registry } = await oneRound();
    expect([outcome, slowPath.metricsStale(MONOTONIC_MS)]).toEqual(["done", false]);
    expect(registry.get(HANDLE).reading).toMatchObject({ capacityBytes: GIB });
  });

  it("are not stale where no Prometheus is configured", async () => {
    const { staleBefore, evaluations } = await oneRound(false);
    expect([staleBefore, evaluations, slowPath.metricsStale(MONOTONIC_MS)]).toEqual([false, 1, false]);
    expect(prometheus.asked()).toBe(0);
  });
});

describe("what Prometheus remembers of the last week", () => {
  const CLAIMS = Array.from({ length: 1200 }, (_, index) => `default/data-${index}`);

  it("comes in pages of some hundred claims, and goes on after a page that failed", async () => {
    const clock = { nowMs: () => NOW_MS, monotonicMs: () => MONOTONIC_MS };
    const registry = createVolumeRegistry();
    const outcomes: string[] = [];
    prometheus.behaviour = "fails";
    prometheus.hours = CLAIMS.map((claim) => ({
      claim: claim.slice("default/".length),
      values: Array.from({ length: 30 }, (_, hour) => [NOW_MS / 1000 - hour * 3600, "5"] as const),
    }));
    slowPath = createSlowPath({
      prometheus: createPrometheusSource(connectToPrometheus({ url: prometheus.url }), SCRAPE_INTERVAL_MS, clock),
      registry,
      claims: () => CLAIMS,
      handlesOf: (claim) => [claim],
      evaluateAll: async () => undefined,
      intervalMs: 20,
      scrapeIntervalMs: SCRAPE_INTERVAL_MS,
      clock,
      log: createRecordingLog().log,
      onCycle: (_durationMs, outcome) => outcomes.push(outcome),
    });
    slowPath.start();
    await waitFor("two rounds that fail", () => outcomes[1]);
    prometheus.behaviour = "well";
    const isKnown = (claim: string): boolean =>
      registry.get(claim).history.maxUsedBytes(24 * 3_600_000, MONOTONIC_MS) === 5;
    await waitFor("the history of all", () => CLAIMS.every(isKnown) || undefined);
    const pages = prometheus.requests().filter(({ path }) => path.endsWith("query_range"));
    const names = pages.map(({ body }) => new URLSearchParams(body).get("query")?.split("data-").length ?? 0);
    expect(Math.max(...names)).toBeLessThanOrEqual(501);
    expect(pages.length).toBeGreaterThanOrEqual(4);
  });
});
