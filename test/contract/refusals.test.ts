// Requests that cannot be served: each is answered with the code that clients act on, and a Status that says why.
import { get as httpGet } from "node:http";
import { afterAll, beforeAll, describe, expect, it } from "@jest/globals";
import { startControlPlane } from "../../demo/control-plane/http/server.ts";
import { createLogger } from "../../src/platform/process/log.ts";
import { type ApiClient, MERGE } from "./api-client.ts";
import type { ContractTarget } from "./contract-target.ts";
import { configMap, startWidgets, widget } from "./widget.ts";

let target: ContractTarget;
let api: ApiClient;
let widgets: string;
let configMaps: string;

beforeAll(async () => {
  ({ target, api, widgets, configMaps } = await startWidgets());
});

afterAll(() => target.close());

it.each([
  "/nothing",
  "/api/v2",
  "/api/v1/nothing",
  "/apis/tidemark.example/v1/filesystems",
  "/apis/contract.tidemark.dev/v9/widgets",
  "/api/v1/namespaces/default/namespaces/default",
  "/api/v1/namespaces/default/configmaps/a/status",
])("%s is not there: 404", async (path) => {
  expect((await api.get(path)).code).toBe(404);
});

it.each([
  ["POST", "/api/v1/configmaps"],
  ["PUT", "/api/v1/namespaces"],
])("%s %s is not allowed: 405", async (method, path) => {
  expect((await api.send(method, path, configMap("a"), {})).code).toBe(405);
});

it.each(["text/plain", "application/merge-patch+json"])(
  "a new object as %s is refused with 415",
  async (contentType) => {
    const { code, body } = await api.post(configMaps, configMap("a"), { contentType });
    expect(code).toBe(415);
    expect(body["reason"]).toBe("UnsupportedMediaType");
  },
);

it("a patch of no known type is refused with 415", async () => {
  await api.post(configMaps, configMap("untyped"));
  expect((await api.patch(`${configMaps}/untyped`, "application/json", { data: {} })).code).toBe(415);
});

it("a form of answer that is not offered is refused with 406", async () => {
  expect((await api.get(configMaps, { accept: "text/html" })).code).toBe(406);
});

it.each(["{", "[]", "3"])("the body %j is refused with 400", async (body) => {
  const answer = await api.post(configMaps, body);
  expect(answer.code).toBe(400);
  expect(answer.body["kind"]).toBe("Status");
});

it("the body null is an object without a name for a built-in kind, and none for a defined one", async () => {
  const { code, body } = await api.post(configMaps, "null");
  expect(code).toBe(422);
  expect(body["message"]).toContain("name or generateName is required");
  expect((await api.post(widgets, "null")).code).toBe(400);
});

it("an object of another kind than the path's is refused", async () => {
  const { code, body } = await api.post(widgets, { ...widget("a"), kind: "Gadget" });
  expect(code).toBe(422);
  expect(body["details"].causes).toMatchObject([{ field: "kind", message: 'Invalid value: "Gadget": must be Widget' }]);
  expect((await api.post(configMaps, { ...configMap("a"), kind: "Gadget" })).code).toBe(400);
});

it("an object of another version than the path's is refused with 400", async () => {
  expect((await api.post(widgets, { ...widget("a"), apiVersion: "contract.tidemark.dev/v2" })).code).toBe(400);
});

it.each(["fieldValidation=Maybe", "dryRun=Some"])("the parameter %s is refused", async (query) => {
  const { code } = await api.post(`${configMaps}?${query}`, configMap("a"));
  expect([400, 422]).toContain(code);
});

it("a body over the limit is refused with 413", async () => {
  const { code } = await api.post(configMaps, configMap("big", { a: "x".repeat(3 * 1024 * 1024) }));
  expect(code).toBe(413);
});

it("force without apply is refused", async () => {
  await api.post(configMaps, configMap("forced"));
  expect([400, 422]).toContain((await api.patch(`${configMaps}/forced?force=true`, MERGE, { data: {} })).code);
});

describe("the embedded control plane", () => {
  const log = createLogger("control-plane", "silent");

  it.each(["0.0.0.0", "::", "192.0.2.1"])("does not listen on %s", async (host) => {
    await expect(startControlPlane({ port: 0, access: "open", host: host as "127.0.0.1", log })).rejects.toThrow(
      "127.0.0.1 only",
    );
  });

  it.each([
    ["a web page's origin", { origin: "https://example.com" }],
    ["a name that was pointed here", { host: "rebound.example.com" }],
  ])("refuses a request with %s: 403", async (_case, headers) => {
    const controlPlane = await startControlPlane({ port: 0, access: "open", log });
    const code = await new Promise<number | undefined>((resolve, reject) => {
      const request = httpGet(`${controlPlane.url}/api/v1/namespaces`, { headers, agent: false }, (response) => {
        response.resume();
        resolve(response.statusCode);
      });
      request.once("error", reject);
    });
    expect(code).toBe(403);
    await controlPlane.close();
  });

  it("says so when its port is taken", async () => {
    const first = await startControlPlane({ port: 0, access: "open", log });
    await expect(startControlPlane({ port: first.port, access: "open", log })).rejects.toThrow("EADDRINUSE");
    await first.close();
  });

  it("ends its watches when it closes", async () => {
    const controlPlane = await startControlPlane({ port: 0, access: "open", log });
    const watch = await fetch(`${controlPlane.url}/api/v1/configmaps?watch=true`);
    await controlPlane.close();
    await expect(watch.text()).rejects.toThrow();
  });
});
