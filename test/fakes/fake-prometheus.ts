// A server that speaks as much of Prometheus' HTTP API as the slow path asks: instant queries of a metric's last samples and of the time, and
// one range query. The test says which series there are, and may make it fail or fall silent.
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
  /** Samples before that one, oldest first. */
  readonly earlier?: readonly (readonly [atSeconds: number, value: string])[];
}

/** The maximum of the hour before each instant, by Unix seconds. */
export interface FakeHours {
  readonly claim: string;
  readonly values: readonly (readonly [atSeconds: number, value: string])[];
  readonly labels?: Readonly<Record<string, string>>;
}

export type FakeBehaviour =
  | "well"
  | "fails"
  | "is silent"
  | "is silent of history"
  | "is a proxy's page"
  | "redirects"
  | "answers 200 with an error"
  | "warns that a part is missing"
  | "says that it is a part"
  | "ends in the middle"
  | "begins and stops"
  | "never ends";

export interface FakePrometheus {
  readonly url: string;
  series: readonly FakeSeries[];
  hours: readonly FakeHours[];
  behaviour: FakeBehaviour;
  /** What its clock shows, Unix seconds. */
  nowSeconds: number;
  /** How many queries have come. */
  asked(): number;
  requests(): readonly SeenRequest[];
  stop(): Promise<void>;
}

const RANGE_PATH = "/query_range";

export async function startFakePrometheus(): Promise<FakePrometheus> {
  const server = await startMisbehavingApiServer((request, response) => {
    const { behaviour } = prometheus;
    if (behaviour === "is silent") return;
    if (behaviour === "is silent of history" && request.path.endsWith(RANGE_PATH)) return;
    if (behaviour === "is a proxy's page") return void response.writeHead(502).end("<h1>Bad Gateway</h1>");
    if (behaviour === "redirects") return void response.writeHead(307, { location: `${server.server}/other` }).end();
    if (behaviour === "begins and stops") return void response.writeHead(200).write('{"status":');
    if (behaviour === "never ends") return writeWithoutEnd(response);
    const text = JSON.stringify(answerOf(prometheus, request));
    response.writeHead(behaviour === "fails" ? 500 : 200, { "content-type": "application/json" });
    response.end(behaviour === "ends in the middle" ? text.slice(0, text.length / 2) : text);
  });
  const prometheus: FakePrometheus = {
    url: server.server,
    series: [],
    hours: [],
    behaviour: "well",
    nowSeconds: Date.now() / 1000,
    asked: () => server.requests.length,
    requests: () => server.requests,
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

function answerOf(prometheus: FakePrometheus, request: SeenRequest): object {
  const { behaviour } = prometheus;
  if (behaviour === "fails" || behaviour === "answers 200 with an error")
    return { status: "error", errorType: "execution", error: "query processing would load too many samples" };
  const warnings = behaviour === "warns that a part is missing" ? { warnings: ["a store is away"] } : {};
  const part = behaviour === "says that it is a part" ? { isPartial: true } : {};
  return { status: "success", ...part, data: dataOf(prometheus, request), ...warnings };
}

function dataOf({ series, hours, nowSeconds }: FakePrometheus, { path, body }: SeenRequest): object {
  const expression = new URLSearchParams(body).get("query") ?? "";
  if (path.endsWith(RANGE_PATH)) {
    const [, names = ""] = /persistentvolumeclaim=~"([^"]*)"/.exec(expression) ?? [];
    const pattern = new RegExp(`^(?:${names})$`);
    const asked = hours.filter(({ claim }) => pattern.test(claim));
    return {
      resultType: "matrix",
      result: asked.map(({ claim, labels, values }) => ({ metric: labelsOf(claim, labels), values })),
    };
  }
  if (expression === "time()") return { resultType: "scalar", result: [nowSeconds, String(nowSeconds)] };
  const [, metric] = /^(\w+)\[\d+s\]$/.exec(expression) ?? [];
  const found = series.filter((one) => one.metric === metric);
  return {
    resultType: "matrix",
    result: found.map(({ claim, labels, value, atSeconds, earlier = [] }) => ({
      metric: { __name__: metric, ...labelsOf(claim, labels) },
      values: [...earlier, [atSeconds, value]],
    })),
  };
}

function labelsOf(claim: string, labels: FakeSeries["labels"] = {}): Record<string, string> {
  return { namespace: "default", persistentvolumeclaim: claim, ...labels };
}
