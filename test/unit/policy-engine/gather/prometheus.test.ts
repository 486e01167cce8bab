// What is read out of Prometheus' answers, over HTTP; the real Prometheus is in test/integration/prometheus.test.ts.
import { afterEach, beforeEach, describe, expect, it } from "@jest/globals";
import { createPrometheusSource, PrometheusError } from "../../../../src/policy-engine/gather/prometheus.ts";
import { GIB, MIB } from "../../../../src/units/quantity.ts";
import {
  type FakeHours,
  type FakePrometheus,
  type FakeSeries,
  startFakePrometheus,
} from "../../../fakes/fake-prometheus.ts";

const AT_SECONDS = 1_795_000_000;
const HOUR_SECONDS = 3600;

let prometheus: FakePrometheus;
beforeEach(async () => {
  prometheus = await startFakePrometheus();
  prometheus.nowSeconds = AT_SECONDS + 5;
});
afterEach(() => prometheus.stop());

type Figure = "capacity_bytes" | "available_bytes" | "inodes" | "inodes_used";

function figure(claim: string, name: Figure, value: number | string, more: Partial<FakeSeries> = {}): FakeSeries {
  return { metric: `tidemark_filesystem_${name}`, claim, value: String(value), atSeconds: AT_SECONDS, ...more };
}

const usable = (claim: string): FakeSeries[] => [
  figure(claim, "capacity_bytes", GIB),
  figure(claim, "available_bytes", 300 * MIB),
];
const READ = { scrapedAtMs: AT_SECONDS * 1000, ageMs: 5000, capacityBytes: GIB, availableBytes: 300 * MIB };

const readings = () => createPrometheusSource(prometheus.url).readings();

describe("a claim's reading", () => {
  it("is joined from its series of one scrape", async () => {
    prometheus.series = [...usable("a"), figure("a", "inodes", 1000), figure("a", "inodes_used", 10)];
    expect(await readings()).toEqual(new Map([["default/a", { ...READ, inodesTotal: 1000, inodesUsed: 10 }]]));
  });

  it("has no inodes where the filesystem tells none, instead of 0", async () => {
    prometheus.series = usable("a");
    expect((await readings()).get("default/a")).toEqual({ ...READ, inodesTotal: undefined, inodesUsed: undefined });
  });

  it("is no number where none that is finite was scraped, never 0", async () => {
    prometheus.series = [figure("a", "capacity_bytes", "+Inf"), figure("a", "available_bytes", "NaN")];
    const reading = (await readings()).get("default/a");
    expect(reading).toMatchObject({ capacityBytes: Number.NaN, availableBytes: Number.NaN });
  });

  const older = { atSeconds: AT_SECONDS - 15 };
  const another = { labels: { node: "node-2" } };
  it.each<[string, FakeSeries[]]>([
    [
      "whose capacity and use are of two scrapes",
      [figure("bad", "capacity_bytes", GIB), figure("bad", "available_bytes", 16 * MIB, older)],
    ],
    ["with two series of its capacity", [...usable("bad"), figure("bad", "capacity_bytes", 2 * GIB, another)]],
    ["with two series of what is available", [...usable("bad"), figure("bad", "available_bytes", 16 * MIB, another)]],
    ["with two series of each", [...usable("bad"), ...usable("bad").map((one) => ({ ...one, ...another }))]],
    [
      "with three series of its capacity",
      [
        ...usable("bad"),
        figure("bad", "capacity_bytes", 2 * GIB, another),
        figure("bad", "capacity_bytes", 2 * GIB, { labels: { node: "node-3" } }),
      ],
    ],
    [
      "whose scrape Prometheus dates after its answer",
      usable("bad").map((one) => ({ ...one, atSeconds: AT_SECONDS + 6 })),
    ],
    ["without a capacity", [figure("bad", "available_bytes", GIB)]],
    ["without what is available", [figure("bad", "capacity_bytes", GIB)]],
  ])("is left out for one %s, and the others are read", async (_what, series) => {
    prometheus.series = [...usable("first"), ...series, ...usable("last")];
    expect([...(await readings()).keys()]).toEqual(["default/first", "default/last"]);
  });
});

describe("hourly maxima", () => {
  it("are of the hour before each instant, without those that are no use in bytes", async () => {
    const values = [
      [AT_SECONDS, "5"],
      [AT_SECONDS + HOUR_SECONDS, "NaN"],
      [AT_SECONDS + 2 * HOUR_SECONDS, "-1"],
      [AT_SECONDS + 3 * HOUR_SECONDS, "7"],
    ] as const;
    prometheus.hours = [{ claim: "a", values }];
    const hours = await createPrometheusSource(prometheus.url).hourlyMaxima(AT_SECONDS * 1000);
    expect(hours.get("default/a")).toEqual([
      { hourStartMs: (AT_SECONDS - HOUR_SECONDS) * 1000, usedBytes: 5 },
      { hourStartMs: (AT_SECONDS + 2 * HOUR_SECONDS) * 1000, usedBytes: 7 },
    ]);
  });

  const [first, second] = [AT_SECONDS, AT_SECONDS + HOUR_SECONDS];
  const before: FakeHours = {
    claim: "moved",
    labels: { instance: "node-1" },
    values: [
      [first, "900"],
      [second, "800"],
    ],
  };
  const after = (value: string): FakeHours => ({
    claim: "moved",
    labels: { instance: "node-2" },
    values: [[second, value]],
  });
  it.each<[string, FakeHours[], number]>([
    ["the larger one first", [before, after("10")], 800],
    ["the larger one last", [after("10"), before], 800],
    ["the newer one larger", [before, after("850")], 850],
    ["one that is no use in bytes", [before, after("+Inf")], 800],
    ["one of more bytes than can be counted", [after("1e300"), before], 800],
  ])("are the largest of a claim's series, %s", async (_which, hours, expected) => {
    prometheus.hours = hours;
    const maxima = (await createPrometheusSource(prometheus.url).hourlyMaxima(second * 1000)).get("default/moved");
    expect(maxima).toHaveLength(2);
    expect(
      new Map(maxima?.map(({ hourStartMs, usedBytes }) => [hourStartMs / 1000 + HOUR_SECONDS, usedBytes])),
    ).toEqual(
      new Map([
        [first, 900],
        [second, expected],
      ]),
    );
  });
});

describe("a Prometheus that gives no answer", () => {
  it("because it fails is an error that says what was asked, and what came back", async () => {
    prometheus.behaviour = "fails";
    const asked = readings();
    await expect(asked).rejects.toBeInstanceOf(PrometheusError);
    await expect(asked).rejects.toThrow(/^status 500 to tidemark_filesystem_\w+ at http:/);
  });

  it("because it is silent is an error after a limit", async () => {
    prometheus.behaviour = "is silent";
    const asked = createPrometheusSource(prometheus.url, { ms: 50, bytes: MIB }).readings();
    await expect(asked).rejects.toBeInstanceOf(PrometheusError);
    await expect(asked).rejects.toThrow(/^no answer to tidemark_filesystem_\w+ at http:/);
  });

  it.each<[FakePrometheus["behaviour"], RegExp, number]>([
    ["is a proxy's page", /^status 502 to tidemark_\w+ at http:\S+ "<h1>Bad Gateway<\/h1>"$/, 10_000],
    ["begins and stops", /^no answer to .*TimeoutError/, 1000],
    ["never ends", /^no answer to .*it has more than 1Mi$/, 10_000], // a busy machine takes its time for that much
  ])("because what answers %s is an error that says so", async (behaviour, message, ms) => {
    prometheus.behaviour = behaviour;
    const asked = createPrometheusSource(prometheus.url, { ms, bytes: MIB }).readings();
    await expect(asked).rejects.toBeInstanceOf(PrometheusError);
    await expect(asked).rejects.toThrow(message);
  });
});
