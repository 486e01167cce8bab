// Lists: selectors, pages that show one moment, versions.
import { afterAll, beforeAll, describe, expect, it } from "@jest/globals";
import type { AnswerBody } from "./answer-body.ts";
import { type ApiClient, type Json } from "./api-client.ts";
import { type ContractTarget, itEmbedded } from "./contract-target.ts";
import { configMap, startWidgets, widget } from "./widget.ts";

let target: ContractTarget;
let api: ApiClient;
let namespace: string;
let widgets: string;
let configMaps: string;

beforeAll(async () => {
  ({ target, api, namespace, widgets, configMaps } = await startWidgets());
  const labels: [string, Json][] = [
    ["a", { tier: "cache", zone: "1" }],
    ["b", { tier: "cache" }],
    ["c", { tier: "web" }],
    ["d", {}],
  ];
  for (const [name, each] of labels) await api.post(widgets, widget(name, {}, { labels: each }));
});

afterAll(() => target.close());

const names = (body: AnswerBody): string[] => body.items.map(({ metadata }) => metadata.name);

describe("a list", () => {
  it("is sorted by name and carries the kind, the version and whole objects", async () => {
    const { body } = await api.get(widgets);
    expect(body).toMatchObject({ kind: "WidgetList", apiVersion: "contract.tidemark.dev/v1" });
    expect(body["metadata"].resourceVersion).toMatch(/^\d+$/);
    expect(names(body)).toEqual(["a", "b", "c", "d"]);
    expect(body["items"][0]?.spec).toEqual({ size: 1, color: "red" });
  });

  it("of all namespaces holds those of each", async () => {
    const { body } = await api.get(
      `/apis/contract.tidemark.dev/v1/widgets?fieldSelector=metadata.namespace=${namespace}`,
    );
    expect(names(body)).toEqual(["a", "b", "c", "d"]);
  });

  it("of a namespace that does not exist is empty", async () => {
    const { code, body } = await api.get("/apis/contract.tidemark.dev/v1/namespaces/nowhere/widgets");
    expect(code).toBe(200);
    expect(body["items"]).toEqual([]);
  });

  it("takes resourceVersion=0", async () => {
    expect(names((await api.get(`${widgets}?resourceVersion=0`)).body)).toEqual(["a", "b", "c", "d"]);
  });

  it("does not answer for a version that is not reached yet: 504", async () => {
    const { code, body } = await api.get(`${widgets}?resourceVersion=9000000000000000`);
    expect(code).toBe(504);
    expect(body["details"].causes[0]?.reason).toBe("ResourceVersionTooLarge");
  });

  it("refuses a version that is no number with 400", async () => {
    expect((await api.get(`${widgets}?resourceVersion=yesterday`)).code).toBe(400);
  });
});

describe("a label selector", () => {
  it.each([
    ["tier=cache", ["a", "b"]],
    ["tier==cache", ["a", "b"]],
    ["tier!=cache", ["c", "d"]],
    ["tier in (cache,web)", ["a", "b", "c"]],
    ["tier notin (cache)", ["c", "d"]],
    ["tier", ["a", "b", "c"]],
    ["!tier", ["d"]],
    ["tier=cache,zone", ["a"]],
    ["tier in (cache, web),zone!=1", ["b", "c"]],
    ["", ["a", "b", "c", "d"]],
  ])("%j selects %j", async (selector, expected) => {
    const { body } = await api.get(`${widgets}?labelSelector=${encodeURIComponent(selector)}`);
    expect(names(body)).toEqual(expected);
  });

  it.each(["tier in cache", "=x", "a b"])("%j is refused with 400", async (selector) => {
    const { code, body } = await api.get(`${widgets}?labelSelector=${encodeURIComponent(selector)}`);
    expect(code).toBe(400);
    expect(body["reason"]).toBe("BadRequest");
  });
});

describe("a field selector", () => {
  it.each([
    ["metadata.name=b", ["b"]],
    ["metadata.name!=b", ["a", "c", "d"]],
    ["metadata.name=b,metadata.name=c", []],
  ])("%j selects %j", async (selector, expected) => {
    expect(names((await api.get(`${widgets}?fieldSelector=${encodeURIComponent(selector)}`)).body)).toEqual(expected);
  });

  it("on a field that the kind does not offer is refused with 400, naming the field", async () => {
    const { code, body } = await api.get(`${widgets}?fieldSelector=spec.size=1`);
    expect(code).toBe(400);
    expect(body["message"]).toContain("field label not supported: spec.size");
  });

  it("finds the events of an object by what they are about", async () => {
    const events = `/api/v1/namespaces/${namespace}/events`;
    const event = (name: string, about: string, reason: string) => ({
      metadata: { name },
      involvedObject: { kind: "Widget", namespace, name: about, uid: `uid-${about}` },
      reason,
      type: "Normal",
      message: "said",
    });
    await api.post(events, event("e1", "a", "Grown"));
    await api.post(events, event("e2", "a", "Shrunk"));
    await api.post(events, event("e3", "b", "Grown"));
    const found = async (selector: string) => names((await api.get(`${events}?fieldSelector=${selector}`)).body);
    expect(await found("involvedObject.name=a,involvedObject.kind=Widget")).toEqual(["e1", "e2"]);
    expect(await found("involvedObject.uid=uid-b")).toEqual(["e3"]);
    expect(await found("reason=Grown,type=Normal")).toEqual(["e1", "e3"]);
  });
});

describe("pages", () => {
  const page = async (token = "") =>
    (await api.get(`${configMaps}?labelSelector=paged&limit=2${token && `&continue=${encodeURIComponent(token)}`}`))
      .body;

  it("together show one moment, whatever is written between them", async () => {
    for (const name of ["p1", "p2", "p3", "p4", "p5"])
      await api.post(configMaps, configMap(name, { state: "before" }, { labels: { paged: "" } }));
    const first = await page("");
    expect(names(first)).toEqual(["p1", "p2"]);
    await api.delete(`${configMaps}/p3`);
    await api.post(configMaps, configMap("p35", {}, { labels: { paged: "" } }));
    await api.put(`${configMaps}/p4`, configMap("p4", { state: "after" }, { labels: { paged: "" } }));
    const second = await page(first["metadata"].continue);
    expect(names(second)).toEqual(["p3", "p4"]);
    expect(second["items"][1]?.data).toEqual({ state: "before" });
    expect(second["metadata"].resourceVersion).toBe(first["metadata"].resourceVersion);
    const third = await page(second["metadata"].continue);
    expect(names(third)).toEqual(["p5"]);
    expect(third["metadata"].continue ?? "").toBe("");
  });

  itEmbedded("of a moment that is forgotten are answered with 410 Expired", "it forgets after minutes", async () => {
    const token = Buffer.from('{"v":"meta.k8s.io/v1","rv":1,"start":"p2"}').toString("base64url");
    const { code, body } = await api.get(`${configMaps}?limit=2&continue=${token}`);
    expect(code).toBe(410);
    expect(body["reason"]).toBe("Expired");
  });

  it("do not go on from a token that is none: 400", async () => {
    expect((await api.get(`${configMaps}?limit=2&continue=nonsense`)).code).toBe(400);
  });
});
