// Whether Prometheus' figures count as stale, by what it has answered over HTTP.
import { afterEach, beforeEach, describe, expect, it } from "@jest/globals";
import { createSlowPath, type SlowPath } from "../../../../src/policy-engine/engine/slow-path.ts";
import { createPrometheusSource } from "../../../../src/policy-engine/gather/prometheus.ts";
import { createVolumeRegistry } from "../../../../src/policy-engine/gather/volume-registry.ts";
import { GIB, MIB } from "../../../../src/units/quantity.ts";
import { NOW_MS } from "../../../builders/facts.ts";
import { type FakePrometheus, startFakePrometheus } from "../../../fakes/fake-prometheus.ts";
import { createRecordingLog } from "../../../fakes/recording-log.ts";
import { waitFor } from "../../../harness/wait-for.ts";

/** Each round is begun by hand: the next would begin only after the test. */
const INTERVAL_MS = 600_000;
/** The engine has run for an hour. */
const MONOTONIC_MS = 3_600_000;
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
  const timeLimitMs = prometheus.behaviour === "is silent" ? 50 : 30_000;
  let evaluations = 0;
  slowPath = createSlowPath({
    prometheus: hasPrometheus ? createPrometheusSource(prometheus.url, { ms: timeLimitMs, bytes: GIB }) : undefined,
    registry,
    handlesOf: (claim) => (claim === "default/a" ? [HANDLE] : []),
    evaluateAll: async () => {
      evaluations += 1;
    },
    intervalMs: INTERVAL_MS,
    scrapeIntervalMs: 15_000,
    clock: { nowMs: () => NOW_MS, monotonicMs: () => MONOTONIC_MS },
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
    expect(registry.get(HANDLE).reading).toMatchObject({ sampledAtMs: MONOTONIC_MS - 4000, aheadMs: 0 });
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

  it("are not stale where no Prometheus is configured", async () => {
    const { staleBefore, evaluations } = await oneRound(false);
    expect([staleBefore, evaluations, slowPath.metricsStale(MONOTONIC_MS)]).toEqual([false, 1, false]);
    expect(prometheus.asked()).toBe(0);
  });
});
