// What is read out of Prometheus' answers, over HTTP; the real Prometheus is in test/integration/prometheus.test.ts.
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "@jest/globals";
import { GIB, MIB } from "../../../../../src/contracts/quantities/quantity.ts";
import { createPrometheusSource } from "../../../../../src/policy-engine/gather/prometheus/prometheus.ts";
import {
  ANSWER_LIMITS,
  type AnswerLimits,
  connectToPrometheus,
  PrometheusError,
  type PrometheusServer,
} from "../../../../../src/policy-engine/gather/prometheus/prometheus-server.ts";
import {
  type FakeBehaviour,
  type FakePrometheus,
  type FakeSeries,
  startFakePrometheus,
} from "../../../../fakes/fake-prometheus.ts";

const AT_SECONDS = 1_795_000_000;
const HOUR_SECONDS = 3600;
const SCRAPE_MS = 15_000;
const NOW = { nowMs: 1_000_000, monotonicMs: 60_000 };

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
const READ = { sampledAtMs: AT_SECONDS * 1000, ageMs: 5000, capacityBytes: GIB, availableBytes: 300 * MIB };

const clock = { nowMs: () => NOW.nowMs, monotonicMs: () => NOW.monotonicMs };

function source(server: Partial<PrometheusServer> = {}, limits: AnswerLimits = ANSWER_LIMITS) {
  return createPrometheusSource(connectToPrometheus({ url: prometheus.url, ...server }, limits), SCRAPE_MS, clock);
}

const readings = async () => (await source().readings()).byClaim;

describe("a claim's reading", () => {
  it("is joined from its series of one scrape", async () => {
    prometheus.series = [...usable("a"), figure("a", "inodes", 1000), figure("a", "inodes_used", 10)];
    expect(await source().readings()).toEqual({
      at: NOW,
      byClaim: new Map([["default/a", { ...READ, inodesTotal: 1000, inodesUsed: 10 }]]),
    });
  });

  it("has no inodes where the filesystem has none to say, instead of 0", async () => {
    prometheus.series = usable("a");
    expect((await readings()).get("default/a")).toEqual({ ...READ, inodesTotal: undefined, inodesUsed: undefined });
  });

  it("is not a number where none that is finite was scraped, never 0", async () => {
    prometheus.series = [figure("a", "capacity_bytes", "+Inf"), figure("a", "available_bytes", "NaN")];
    const reading = (await readings()).get("default/a");
    expect(reading).toMatchObject({ capacityBytes: Number.NaN, availableBytes: Number.NaN });
  });

  const older = { atSeconds: AT_SECONDS - 15 };

  it("is of the last scrape that capacity and use have both, where one question saw a scrape more than the other", async () => {
    const extended = { earlier: [[AT_SECONDS - 15, String(GIB)]] } as const;
    prometheus.series = [
      figure("a", "capacity_bytes", 2 * GIB, extended),
      figure("a", "available_bytes", 300 * MIB, older),
    ];
    const reading = (await readings()).get("default/a");
    expect(reading).toMatchObject({ capacityBytes: GIB, availableBytes: 300 * MIB, ageMs: 20_000 });
  });

  const another = { labels: { node: "node-2" } };

  it("is of the series that goes on, where another one of the claim ended before it", async () => {
    const moved = { ...another, atSeconds: AT_SECONDS - 30 };
    const before = [figure("a", "capacity_bytes", 2 * GIB, moved), figure("a", "available_bytes", GIB, moved)];
    for (const series of [
      [...before, ...usable("a")],
      [...usable("a"), ...before],
    ]) {
      prometheus.series = series;
      expect((await readings()).get("default/a")).toMatchObject(READ);
    }
  });

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

describe("a round of readings", () => {
  it("asks at most five questions, whatever the number of claims", async () => {
    prometheus.series = Array.from({ length: 500 }, (_, index) => usable(`claim-${index}`)).flat();
    expect((await readings()).size).toBe(500);
    expect(prometheus.asked()).toBeLessThanOrEqual(5);
  });
});

describe("hourly maxima", () => {
  const AT_MS = AT_SECONDS * 1000;

  it("are of the hour before each instant", async () => {
    prometheus.hours = [
      {
        claim: "a",
        values: [
          [AT_SECONDS, "5"],
          [AT_SECONDS + HOUR_SECONDS, "7"],
        ],
      },
    ];
    const hours = await source().hourlyMaxima(["default/a"], AT_MS);
    expect(hours.get("default/a")).toEqual([
      { hourStartMs: (AT_SECONDS - HOUR_SECONDS) * 1000, usedBytes: 5 },
      { hourStartMs: AT_MS, usedBytes: 7 },
    ]);
  });

  it("are asked for by name, a dot in a name meaning a dot", async () => {
    await source().hourlyMaxima(["default/a.b", "default/c", "team-b/c"], AT_MS);
    const asked = new URLSearchParams(prometheus.requests()[0]?.body).get("query");
    expect(asked).toContain('{namespace=~"default|team-b",persistentvolumeclaim=~"a[.]b|c"}');
  });
});

describe("who asks", () => {
  let directory: string;
  beforeEach(() => {
    directory = mkdtempSync(join(tmpdir(), "prometheus-server-"));
  });
  afterEach(() => rmSync(directory, { recursive: true }));

  const lastHeaders = () => prometheus.requests().at(-1)?.headers;
  const fileOf = (text: string): string => {
    const file = join(directory, "secret");
    writeFileSync(file, text);
    return file;
  };

  it("shows the token that is in the file now, as it rotates", async () => {
    const asking = source({ tokenFile: fileOf("first\n") });
    await asking.readings();
    expect(lastHeaders()).toMatchObject({ authorization: "Bearer first" });
    fileOf("second\n");
    await asking.readings();
    expect(lastHeaders()).toMatchObject({ authorization: "Bearer second" });
  });

  it("shows a user and the password of a file", async () => {
    await source({ user: "tidemark", passwordFile: fileOf("pass word: \n") }).readings();
    const expected = Buffer.from("tidemark:pass word: ").toString("base64");
    expect(lastHeaders()).toMatchObject({ authorization: `Basic ${expected}` });
  });

  it("sends the headers that a multi-tenant server wants, and keeps a path before the API's", async () => {
    await source({ url: `${prometheus.url}/prometheus`, headers: { "X-Scope-OrgID": "platform" } }).readings();
    expect(lastHeaders()).toMatchObject({ "x-scope-orgid": "platform" });
    expect(new Set(prometheus.requests().map(({ path }) => path))).toEqual(new Set(["/prometheus/api/v1/query"]));
  });

  it("gets no answer where its token cannot be read, and says which file", async () => {
    const asked = source({ tokenFile: join(directory, "missing") }).readings();
    await expect(asked).rejects.toBeInstanceOf(PrometheusError);
    await expect(asked).rejects.toThrow(/ENOENT.*missing/);
  });
});

describe("a Prometheus that gives no answer", () => {
  it("because its clock is behind all scrapes is an error, and no round that read nothing", async () => {
    prometheus.series = usable("a");
    prometheus.nowSeconds = AT_SECONDS - 30;
    await expect(readings()).rejects.toThrow(/all 1 scrapes are of after/);
  });

  it("is asked for the whole truth, and for now", async () => {
    await readings();
    const asked = prometheus.requests().map(({ body }) => new URLSearchParams(body));
    for (const one of asked)
      expect([one.get("partial_response"), one.get("deny_partial_response"), one.get("nocache")]).toEqual([
        "false",
        "1",
        "1",
      ]);
  });

  it("because it fails is an error that says what was asked, and what came back", async () => {
    prometheus.behaviour = "fails";
    const asked = readings();
    await expect(asked).rejects.toBeInstanceOf(PrometheusError);
    await expect(asked).rejects.toThrow(/^status 500 to tidemark_filesystem_\w+\[45s\] at http:.*too many samples/);
  });

  it("because it is silent is an error after a limit", async () => {
    prometheus.behaviour = "is silent";
    const asked = source({}, { ms: 50, bytes: MIB }).readings();
    await expect(asked).rejects.toBeInstanceOf(PrometheusError);
    await expect(asked).rejects.toThrow(/^no answer to tidemark_filesystem_\w+\[45s\] at http:/);
  });

  it("because it only redirects is an error, and nothing is asked where that leads", async () => {
    prometheus.behaviour = "redirects";
    await expect(readings()).rejects.toThrow(/^status 307 /);
    expect(new Set(prometheus.requests().map(({ path }) => path))).toEqual(new Set(["/api/v1/query"]));
  });

  it.each<[FakeBehaviour, RegExp, number]>([
    ["is a proxy's page", /^status 502 to tidemark_\S+ at http:\S+ "<h1>Bad Gateway<\/h1>"$/, 10_000],
    ["answers 200 with an error", /^status 200 to .*too many samples/, 10_000],
    ["warns that a part is missing", /^status 200 to .*a store is away/, 10_000],
    ["says that it is a part", /^status 200 to .*isPartial/, 10_000],
    ["ends in the middle", /^status 200 to /, 10_000],
    ["begins and stops", /^no answer to .*TimeoutError/, 1000],
    ["never ends", /^no answer to .*it has more than 1Mi$/, 10_000], // a busy machine takes its time for that much
  ])("because what answers %s is an error that says so", async (behaviour, message, ms) => {
    prometheus.series = usable("a");
    prometheus.behaviour = behaviour;
    const asked = source({}, { ms, bytes: MIB }).readings();
    await expect(asked).rejects.toBeInstanceOf(PrometheusError);
    await expect(asked).rejects.toThrow(message);
  });
});
