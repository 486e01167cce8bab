// What a Prometheus that fails, or that says what is not so, does to sizes: nothing. What is wrong is logged with the question and the
// address, or is the reason of the hold.
import { afterEach, beforeEach, describe, expect, it } from "@jest/globals";
import { GIB, MIB } from "../../../../src/contracts/quantities/quantity.ts";
import { decide } from "../../../../src/policy-engine/decide/decide.ts";
import { createSlowPath } from "../../../../src/policy-engine/engine/slow-path.ts";
import { createPrometheusSource } from "../../../../src/policy-engine/gather/prometheus/prometheus.ts";
import { connectToPrometheus } from "../../../../src/policy-engine/gather/prometheus/prometheus-server.ts";
import { createVolumeRegistry } from "../../../../src/policy-engine/gather/volume-registry.ts";
import { NO_CEILINGS } from "../../../../src/policy-engine/policies/ceilings.ts";
import { aVolume, NOW_MS, steadyHistory } from "../../../builders/facts.ts";
import { aPolicy, EXTEND_AT_80 } from "../../../builders/policy.ts";
import {
  type FakeBehaviour,
  type FakePrometheus,
  type FakeSeries,
  startFakePrometheus,
} from "../../../fakes/fake-prometheus.ts";
import { createRecordingLog } from "../../../fakes/recording-log.ts";
import { waitFor } from "../../../harness/wait-for.ts";

const SIZE_BYTES = 10 * GIB;
const AT_SECONDS = NOW_MS / 1000;
const HOUR_SECONDS = 3600;
const POLICY = aPolicy({
  rules: [EXTEND_AT_80, { name: "shrink", action: "Shrink", when: "volume.usedRatio < 0.3", targetUsed: "50%" }],
});

let prometheus: FakePrometheus;
beforeEach(async () => {
  prometheus = await startFakePrometheus();
  prometheus.nowSeconds = AT_SECONDS;
});
afterEach(() => prometheus.stop());

function seriesOf(
  availableBytes: number | string,
  more: Partial<FakeSeries> = {},
  capacity: number | string = SIZE_BYTES,
) {
  const one = (metric: string, value: number | string): FakeSeries => ({
    metric: `tidemark_filesystem_${metric}_bytes`,
    claim: "a",
    value: String(value),
    atSeconds: AT_SECONDS - 4,
    ...more,
  });
  return [one("capacity", capacity), one("available", availableBytes)];
}
const FULL = seriesOf(512 * MIB);
const EMPTY = seriesOf(9 * GIB);

/** A round of the slow path, and what is decided of the volume after it: of 10 GiB, with a history in which little was used. */
async function decidedAfterRound() {
  const registry = createVolumeRegistry();
  const outcomes: string[] = [];
  const clock = { nowMs: () => NOW_MS, monotonicMs: () => NOW_MS };
  const { log, lines } = createRecordingLog();
  const limits = {
    ms: prometheus.behaviour === "is silent" || prometheus.behaviour === "begins and stops" ? 300 : 10_000,
    bytes: MIB,
  };
  const slowPath = createSlowPath({
    prometheus: createPrometheusSource(connectToPrometheus({ url: prometheus.url }, limits), 15_000, clock),
    registry,
    claims: () => [],
    handlesOf: (claim) => (claim === "default/a" ? ["fs-a"] : []),
    evaluateAll: async () => undefined,
    intervalMs: 600_000,
    scrapeIntervalMs: 15_000,
    clock,
    log,
    onCycle: (_durationMs, outcome) => outcomes.push(outcome),
  });
  slowPath.start();
  await waitFor("the round to end", () => outcomes[0]);
  const metricsStale = slowPath.metricsStale(NOW_MS);
  await slowPath.stop();
  const { reading = "none" } = registry.get("fs-a");
  const history = steadyHistory(reading === "none" ? 512 * MIB : reading.usedBytes);
  const facts = aVolume({ sizeBytes: SIZE_BYTES, history, reading, facts: { metricsStale } });
  const said = lines.map(({ err }) => (err as { message?: string } | undefined)?.message ?? "").join("\n");
  return { plan: decide(facts, POLICY, NO_CEILINGS), outcome: outcomes[0], said };
}

describe("a Prometheus that says what is so", () => {
  it.each([
    ["extends a full volume", FULL, "extend"],
    ["shrinks an empty one", EMPTY, "shrink"],
  ])("%s", async (_what, series, kind) => {
    prometheus.series = series;
    expect((await decidedAfterRound()).plan.kind).toBe(kind);
  });
});

describe("a Prometheus that does not answer rightly changes no size, and is named", () => {
  const QUESTION = /tidemark_filesystem_\w+_bytes\[45s\] at http:\/\/127\.0\.0\.1:\d+/;
  it.each<[FakeBehaviour, RegExp]>([
    ["fails", /^status 500 .*too many samples/],
    ["is silent", /^no answer .*TimeoutError/],
    ["is a proxy's page", /^status 502 .*Bad Gateway/],
    ["redirects", /^status 307 /],
    ["answers 200 with an error", /^status 200 .*too many samples/],
    ["warns that a part is missing", /^status 200 .*a store is away/],
    ["says that it is a part", /^status 200 .*isPartial/],
    ["ends in the middle", /^status 200 /],
    ["begins and stops", /^no answer .*TimeoutError/],
    ["never ends", /^no answer .*more than 1Mi$/],
  ])("where it %s", async (behaviour, message) => {
    for (const series of [FULL, EMPTY]) {
      prometheus.series = series;
      prometheus.behaviour = behaviour;
      const { plan, outcome, said } = await decidedAfterRound();
      expect([plan.kind, plan.reason, outcome]).toEqual(["hold", "StaleMetrics", "failed"]);
      expect(said).toMatch(message);
      expect(said).toMatch(QUESTION);
    }
  });
});

describe("a Prometheus that lies changes no size, and the hold says why", () => {
  const another = { labels: { tenant: "b" } };
  it.each<[string, FakeSeries[], string]>([
    ["has another tenant's volume of that name alone", seriesOf(200 * MIB, another, 4 * GIB), "MetricsInconsistent"],
    ["has another tenant's volume of that name, too", [...FULL, ...seriesOf(9 * GIB, another)], "StaleMetrics"],
    ["has volumes of other names alone", seriesOf(0, { claim: "b" }), "StaleMetrics"],
    ["has no series", [], "StaleMetrics"],
    ["has a capacity alone", FULL.slice(0, 1), "StaleMetrics"],
    ["says NaN of what is available", seriesOf("NaN"), "MetricsInconsistent"],
    ["says an infinity of the capacity", seriesOf(512 * MIB, {}, "+Inf"), "MetricsInconsistent"],
    ["says less than nothing", seriesOf(-1), "MetricsInconsistent"],
    ["has more available than there is", seriesOf(11 * GIB), "MetricsInconsistent"],
    ["counts KiB as bytes", seriesOf(GIB / 2048, {}, SIZE_BYTES / 1024), "MetricsInconsistent"],
    ["says half a byte", seriesOf(0.5), "MetricsInconsistent"],
    ["says 0 of all", seriesOf(0, {}, 0), "MetricsInconsistent"],
  ])("where it %s", async (_what, series, reason) => {
    prometheus.series = series;
    const { plan } = await decidedAfterRound();
    expect([plan.kind, plan.reason]).toEqual(["hold", reason]);
    expect(plan.message).not.toBe("");
  });

  it("where its clock is an hour ahead of what it scrapes", async () => {
    prometheus.series = FULL;
    prometheus.nowSeconds = AT_SECONDS + HOUR_SECONDS;
    const { plan } = await decidedAfterRound();
    expect([plan.kind, plan.reason, plan.message]).toEqual([
      "hold",
      "StaleMetrics",
      expect.stringContaining("Prometheus"),
    ]);
  });

  it("where its clock is an hour behind, and it says so", async () => {
    prometheus.series = EMPTY;
    prometheus.nowSeconds = AT_SECONDS - HOUR_SECONDS;
    const { plan, said } = await decidedAfterRound();
    expect([plan.kind, plan.reason]).toEqual(["hold", "StaleMetrics"]);
    expect(said).toContain("set its clock");
  });

  it("but not where both it and its scrapes are an hour behind: ages are by its own clock", async () => {
    prometheus.series = seriesOf(512 * MIB, { atSeconds: AT_SECONDS - HOUR_SECONDS - 4 });
    prometheus.nowSeconds = AT_SECONDS - HOUR_SECONDS;
    expect((await decidedAfterRound()).plan.kind).toBe("extend");
  });
});
