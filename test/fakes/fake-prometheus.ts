// A server that speaks as much of Prometheus' HTTP API as the slow path asks: instant queries of a metric or of its timestamp, and one
// range query. The test says which series there are, and may make it fail or fall silent.
import type { ServerResponse } from "node:http";
import { type SeenRequest, startMisbehavingApiServer } from "./misbehaving-api-server.ts";

export interface FakeSeries {
  readonly metric: string;
  /** Of the default namespace. */
  readonly claim: string;
  /** As Prometheus writes numbers: "NaN" and "+Inf", too. */
  readonly value: string;
  /** Unix seconds of the scrape that it is from. */
  readonly atSeconds: number;
  readonly labels?: Readonly<Record<string, string>>;
}

/** The maximum of the hour before each instant, by Unix seconds. */
export interface FakeHours {
  readonly claim: string;
  readonly values: readonly (readonly [atSeconds: number, value: string])[];
  readonly labels?: Readonly<Record<string, string>>;
}

export type FakeBehaviour = "well" | "fails" | "is silent" | "is a proxy's page" | "begins and stops" | "never ends";

export interface FakePrometheus {
  readonly url: string;
  series: readonly FakeSeries[];
  hours: readonly FakeHours[];
  behaviour: FakeBehaviour;
  /** What its clock shows, Unix seconds. */
  nowSeconds: number;
  /** How many queries have come. */
  asked(): number;
  stop(): Promise<void>;
}

export async function startFakePrometheus(): Promise<FakePrometheus> {
  const server = await startMisbehavingApiServer((request, response) => {
    if (prometheus.behaviour === "is silent") return;
    if (prometheus.behaviour === "is a proxy's page") return void response.writeHead(502).end("<h1>Bad Gateway</h1>");
    if (prometheus.behaviour === "begins and stops") return void response.writeHead(200).write('{"status":');
    if (prometheus.behaviour === "never ends") return writeWithoutEnd(response);
    const isWell = prometheus.behaviour === "well";
    const result = isWell ? resultOf(prometheus, request) : [];
    response.writeHead(isWell ? 200 : 500, { "content-type": "application/json" });
    response.end(JSON.stringify(isWell ? { status: "success", data: { result } } : { status: "error" }));
  });
  const prometheus: FakePrometheus = {
    url: server.server,
    series: [],
    hours: [],
    behaviour: "well",
    nowSeconds: Date.now() / 1000,
    asked: () => server.requests.length,
    stop: () => server.close(),
  };
  return prometheus;
}

function writeWithoutEnd(response: ServerResponse): void {
  const more = (): void => {
    if (!response.destroyed) response.write(" ".repeat(65_536), () => setImmediate(more));
  };
  response.writeHead(200);
  more();
}

function resultOf({ series, hours, nowSeconds }: FakePrometheus, { path, body }: SeenRequest): object[] {
  if (path === "/api/v1/query_range")
    return hours.map(({ claim, labels, values }) => ({ metric: labelsOf(claim, labels), values }));
  const expression = new URLSearchParams(body).get("query") ?? "";
  const [, timed] = /^timestamp\((\w+)\)$/.exec(expression) ?? [];
  return series
    .filter(({ metric }) => metric === (timed ?? expression))
    .map(({ claim, labels, value, atSeconds }) => ({
      metric: labelsOf(claim, labels),
      // The instant is that of the question; when the sample was taken only timestamp() tells.
      value: [nowSeconds, timed === undefined ? value : String(atSeconds)],
    }));
}

function labelsOf(claim: string, labels: FakeSeries["labels"] = {}): Record<string, string> {
  return { namespace: "default", persistentvolumeclaim: claim, ...labels };
}
