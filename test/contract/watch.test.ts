// Watches: what is told, in which order, from which version on, and how a watch ends.
import { afterAll, beforeAll, describe, expect, it } from "@jest/globals";
import { type ApiClient, MERGE, TABLE } from "./api-client.ts";
import { type ContractTarget, itEmbedded } from "./contract-target.ts";
import { WatchReader } from "./watch-reader.ts";
import { configMap, startWidgets, widget } from "./widget.ts";

let target: ContractTarget;
let api: ApiClient;
let widgets: string;
let configMaps: string;
const readers: WatchReader[] = [];

beforeAll(async () => {
  ({ target, api, widgets, configMaps } = await startWidgets());
});

afterAll(async () => {
  for (const reader of readers) reader.close();
  await target.close();
});

async function watch(path: string, query: string, accept?: string): Promise<WatchReader> {
  const reader = await WatchReader.open(`${target.baseUrl}${path}?watch=true&${query}`, accept);
  readers.push(reader);
  return reader;
}

async function currentVersion(path: string): Promise<string> {
  return (await api.get(path)).body["metadata"].resourceVersion;
}

it("tells every change after the version it starts from, in order, those before it was opened included", async () => {
  const version = await currentVersion(widgets);
  await api.post(widgets, widget("early"));
  const reader = await watch(widgets, `resourceVersion=${version}`);
  await api.patch(`${widgets}/early`, MERGE, { spec: { size: 2 } });
  await api.delete(`${widgets}/early`);
  expect(await reader.summaries(3)).toEqual(["ADDED early", "MODIFIED early", "DELETED early"]);
});

it("gives the last state of a deleted object, under the version of its deletion", async () => {
  const version = await currentVersion(widgets);
  const { body } = await api.post(widgets, widget("last", { size: 7 }));
  await api.delete(`${widgets}/last`);
  const reader = await watch(widgets, `resourceVersion=${version}`);
  await reader.next();
  const { type, object } = await reader.next();
  expect(type).toBe("DELETED");
  expect(object.spec.size).toBe(7);
  expect(Number(object.metadata.resourceVersion)).toBeGreaterThan(Number(body["metadata"].resourceVersion));
});

it("without a version begins with what is there", async () => {
  await api.post(configMaps, configMap("there-1", {}, { labels: { begin: "" } }));
  await api.post(configMaps, configMap("there-2", {}, { labels: { begin: "" } }));
  const reader = await watch(configMaps, "labelSelector=begin");
  expect((await reader.summaries(2)).sort()).toEqual(["ADDED there-1", "ADDED there-2"]);
  await api.post(configMaps, configMap("there-3", {}, { labels: { begin: "" } }));
  expect(await reader.summaries(1)).toEqual(["ADDED there-3"]);
});

it("tells an object that comes into the selection as added, one that leaves it as deleted", async () => {
  const version = await currentVersion(configMaps);
  const reader = await watch(configMaps, `resourceVersion=${version}&labelSelector=in%3Dyes`);
  await api.post(configMaps, configMap("wanderer"));
  await api.patch(`${configMaps}/wanderer`, MERGE, { metadata: { labels: { in: "yes" } } });
  await api.patch(`${configMaps}/wanderer`, MERGE, { data: { a: "1" } });
  await api.patch(`${configMaps}/wanderer`, MERGE, { metadata: { labels: { in: "no" } } });
  await api.delete(`${configMaps}/wanderer`);
  await api.post(configMaps, configMap("end", {}, { labels: { in: "yes" } }));
  expect(await reader.summaries(4)).toEqual(["ADDED wanderer", "MODIFIED wanderer", "DELETED wanderer", "ADDED end"]);
});

it("of one object tells of that one only", async () => {
  const version = await currentVersion(configMaps);
  const reader = await watch(configMaps, `resourceVersion=${version}&fieldSelector=metadata.name%3Donly`);
  await api.post(configMaps, configMap("not-this"));
  await api.post(configMaps, configMap("only"));
  expect(await reader.summaries(1)).toEqual(["ADDED only"]);
});

it("tells of a finalized deletion as a change first and as a deletion at the end", async () => {
  const version = await currentVersion(widgets);
  await api.post(widgets, widget("finalized", {}, { finalizers: ["example.com/a"] }));
  await api.delete(`${widgets}/finalized`);
  await api.patch(`${widgets}/finalized`, MERGE, { metadata: { finalizers: null } });
  const reader = await watch(widgets, `resourceVersion=${version}`);
  expect(await reader.summaries(3)).toEqual(["ADDED finalized", "MODIFIED finalized", "DELETED finalized"]);
});

it("that starts from a forgotten version says 410 Expired in an ERROR event and ends", async () => {
  const reader = await watch(widgets, "resourceVersion=1");
  const [event, ...more] = await reader.rest();
  expect(event).toMatchObject({ type: "ERROR", object: { kind: "Status", code: 410, reason: "Expired" } });
  expect(more).toEqual([]);
});

const SHORT_WATCHES = "it may leave the bookmark out of a watch of some seconds";

itEmbedded("ends by itself after timeoutSeconds, with a bookmark for those who want them", SHORT_WATCHES, async () => {
  const version = await currentVersion(widgets);
  const reader = await watch(widgets, `resourceVersion=${version}&timeoutSeconds=1&allowWatchBookmarks=true`);
  const last = (await reader.rest()).at(-1);
  expect(last).toMatchObject({ type: "BOOKMARK", object: { kind: "Widget" } });
  expect(Number(last?.["object"].metadata.resourceVersion)).toBeGreaterThanOrEqual(Number(version));
});

it("sends no bookmarks to those who do not want them", async () => {
  const version = await currentVersion(widgets);
  const reader = await watch(widgets, `resourceVersion=${version}&timeoutSeconds=1`);
  expect(await reader.rest()).toEqual([]);
});

it("with sendInitialEvents is a list: what is there, then a bookmark that says so", async () => {
  await api.post(configMaps, configMap("initial", {}, { labels: { initial: "" } }));
  const query =
    "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&labelSelector=initial";
  const reader = await watch(configMaps, query);
  expect(await reader.summaries(1)).toEqual(["ADDED initial"]);
  const { type, object } = await reader.next();
  expect(type).toBe("BOOKMARK");
  expect(object.metadata.annotations).toEqual({ "k8s.io/initial-events-end": "true" });
});

it("as a Table has a row per event, and its columns once", async () => {
  const version = await currentVersion(widgets);
  const reader = await watch(widgets, `resourceVersion=${version}`, TABLE);
  await api.post(widgets, widget("tabled", { size: 3 }));
  await api.patch(`${widgets}/tabled`, MERGE, { spec: { size: 4 } });
  const first = await reader.next();
  expect(first).toMatchObject({ type: "ADDED", object: { kind: "Table" } });
  expect(first["object"].columnDefinitions[1]?.name).toBe("Size");
  expect(first["object"].rows[0]?.cells.slice(0, 2)).toEqual(["tabled", 3]);
  const second = await reader.next();
  expect(second["object"].columnDefinitions ?? []).toEqual([]);
  expect(second["object"].rows[0]?.cells.slice(0, 2)).toEqual(["tabled", 4]);
});

describe("many watches", () => {
  it("are all told, each through its own selection", async () => {
    const version = await currentVersion(configMaps);
    const open = (n: number) => watch(configMaps, `resourceVersion=${version}&labelSelector=many%3D${n % 2}`);
    const opened = await Promise.all(Array.from({ length: 20 }, (_, n) => open(n)));
    await api.post(configMaps, configMap("even", {}, { labels: { many: "0" } }));
    await api.post(configMaps, configMap("odd", {}, { labels: { many: "1" } }));
    const told = await Promise.all(opened.map((reader) => reader.summaries(1)));
    expect(told.flat()).toEqual(Array.from({ length: 20 }, (_, n) => (n % 2 === 0 ? "ADDED even" : "ADDED odd")));
  });
});
