import { afterEach, beforeEach, describe, expect, it } from "@jest/globals";
import { type ConnectedKubeClient, createKubeClient } from "../../../../../src/platform/kube/client/http-client.ts";
import { KubeError } from "../../../../../src/platform/kube/kube-error.ts";
import type { EffectPoint, Effects } from "../../../../../src/platform/process/effects/effects.ts";
import { CONFIG_MAPS, configMap } from "../../../../builders/config-map.ts";
import {
  answerJson,
  answerStatus,
  type Behaviour,
  isWatch,
  type MisbehavingApiServer,
  type SeenRequest,
  sendEvents,
  startMisbehavingApiServer,
} from "../../../../fakes/misbehaving-api-server.ts";
import { createRecordingLog } from "../../../../fakes/recording-log.ts";
import { eventually } from "../../../../harness/wait-for.ts";

const NAME = { namespace: "shop", name: "a" };

let server: MisbehavingApiServer;
let client: ConnectedKubeClient;
let points: string[];

beforeEach(async () => {
  server = await startMisbehavingApiServer((_request, response) => answerJson(response, 200, configMap("a", "7")));
  points = [];
  const effects: Effects = {
    run: async (point: EffectPoint, effect) => {
      points.push(`${point}/before`);
      const result = await effect();
      points.push(`${point}/after`);
      return result;
    },
  };
  client = createKubeClient({ connection: { server: server.server }, effects, userAgent: "tidemark-test" });
});

afterEach(async () => {
  await server.close();
  await client.close();
});

async function errorOf(promise: Promise<unknown>): Promise<KubeError> {
  const error = await promise.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  expect(error).toBeInstanceOf(KubeError);
  return error as KubeError;
}

function lastRequest(): SeenRequest {
  const request = server.requests.at(-1);
  if (request === undefined) throw new Error("no request was made");
  return request;
}

describe("reading", () => {
  it("returns the object without managedFields, and names itself", async () => {
    server.behave((_request, response) => {
      const object = configMap("a", "7");
      answerJson(response, 200, { ...object, metadata: { ...object.metadata, managedFields: [{ manager: "x" }] } });
    });
    expect(await client.get(CONFIG_MAPS, NAME)).toEqual(configMap("a", "7"));
    expect(lastRequest().path).toBe("/api/v1/namespaces/shop/configmaps/a");
    expect(lastRequest().headers["user-agent"]).toBe("tidemark-test");
  });

  it("gives undefined when the API server says that the object is not there", async () => {
    server.behave((_request, response) =>
      answerStatus(response, 404, "NotFound", 'configmaps "a" not found', { name: "a" }),
    );
    expect(await client.get(CONFIG_MAPS, NAME)).toBeUndefined();
  });

  it.each<[string, Behaviour]>([
    ["in plain text", (_request, response) => response.writeHead(404).end("404 page not found\n")],
    ["in a Status", (_request, response) => answerStatus(response, 404, "NotFound", "no such resource")],
  ])("does not take a kind that is not served, said %s, for an object that is not there", async (_how, behaviour) => {
    server.behave(behaviour);
    expect((await errorOf(client.get(CONFIG_MAPS, NAME))).reason).toBe("NotFound");
    expect((await errorOf(client.delete("test/delete", CONFIG_MAPS, NAME))).reason).toBe("NotFound");
  });

  it("refuses to address a namespaced object without its namespace", async () => {
    await expect(client.get(CONFIG_MAPS, { name: "a" })).rejects.toThrow("no namespace");
    await expect(client.delete("test/delete", CONFIG_MAPS, { namespace: "shop", name: "" })).rejects.toThrow("no name");
    expect(server.requests).toEqual([]);
  });

  it("lists all pages at the last page's resourceVersion and fills in what lists leave out", async () => {
    server.behave(({ query }, response) => {
      const { apiVersion, kind, ...bare } = configMap(query.get("continue") === null ? "a" : "b", "3");
      const more = query.get("continue") === null ? "page-2" : "";
      answerJson(response, 200, {
        items: [bare],
        metadata: { resourceVersion: "9", continue: more },
        apiVersion,
        kind,
      });
    });
    const list = await client.list(CONFIG_MAPS, { namespace: "shop", labelSelector: "x=y", pageSize: 1 });
    expect(list).toEqual({ items: [configMap("a", "3"), configMap("b", "3")], resourceVersion: "9" });
    expect(server.requests.map(({ query }) => [query.get("limit"), query.get("labelSelector")])).toEqual([
      ["1", "x=y"],
      ["1", "x=y"],
    ]);
  });

  it("begins a list again when the server has forgotten its start, so that no list mixes two ages", async () => {
    let expired = false;
    server.behave(({ query }, response) => {
      if (query.get("continue") === null)
        answerJson(response, 200, {
          items: [configMap(expired ? "new" : "old")],
          metadata: { resourceVersion: "9", continue: expired ? undefined : "page-2" },
        });
      else {
        expired = true;
        answerStatus(response, 410, "Expired", "the continue token is too old");
      }
    });
    const { items } = await client.list(CONFIG_MAPS);
    expect(items.map(({ metadata }) => metadata.name)).toEqual(["new"]);
  });

  it("keeps its connections: 50 requests in a row need no more than two", async () => {
    for (let i = 0; i < 50; i += 1) await client.get(CONFIG_MAPS, NAME);
    expect(server.connections()).toBeLessThanOrEqual(2);
  });

  it("bounds its connections: 200 requests at once need at most 16", async () => {
    await Promise.all(Array.from({ length: 200 }, () => client.get(CONFIG_MAPS, NAME)));
    expect(server.connections()).toBeLessThanOrEqual(16);
  });
});

describe("refusals", () => {
  it.each([
    [400, "BadRequest", "BadRequest"],
    [401, "Unauthorized", "Unauthorized"],
    [403, "Forbidden", "Forbidden"],
    [409, "Conflict", "Conflict"],
    [409, "AlreadyExists", "AlreadyExists"],
    [410, "Expired", "Expired"],
    [415, "UnsupportedMediaType", "BadRequest"],
    [422, "Invalid", "Invalid"],
    [429, "TooManyRequests", "TooManyRequests"],
    [500, "InternalError", "Internal"],
    [503, "ServiceUnavailable", "Internal"],
    [504, "Timeout", "Unreachable"],
  ])("HTTP %i with reason %s is KubeError %s", async (code, reason, expected) => {
    server.behave((_request, response) => answerStatus(response, code, reason, "because"));
    const error = await errorOf(client.create("test/create", CONFIG_MAPS, configMap("a")));
    expect(error).toMatchObject({ reason: expected, status: code });
    expect(error.message).toContain("POST configmaps shop/a: because");
  });

  it("carries what the server asked for in Retry-After", async () => {
    server.behave((_request, response) => answerJson(response, 429, {}, { "retry-after": "3" }));
    expect((await errorOf(client.get(CONFIG_MAPS, NAME))).retryAfterMs).toBe(3000);
  });

  it("is Unreachable when nobody listens", async () => {
    await server.close();
    expect(await errorOf(client.get(CONFIG_MAPS, NAME))).toMatchObject({ reason: "Unreachable", status: 0 });
  });

  it("is Unreachable when the reply of a write that the server did is lost, and says that it may have happened", async () => {
    const created: string[] = [];
    server.behave(({ body }, response) => {
      created.push((JSON.parse(body) as { metadata: { name: string } }).metadata.name);
      response.destroy();
    });
    const error = await errorOf(client.create("test/create", CONFIG_MAPS, configMap("a")));
    expect(created).toEqual(["a"]);
    expect(error).toMatchObject({ reason: "Unreachable", status: 0 });
    expect(error.message).toContain("may or may not have been carried out");
  });

  it("is Unreachable when an answer breaks off in its middle", async () => {
    server.behave((_request, response) => {
      response.writeHead(200, { "content-length": "100" }).write("{");
      setTimeout(() => response.destroy(), 20);
    });
    expect((await errorOf(client.get(CONFIG_MAPS, NAME))).reason).toBe("Unreachable");
  });

  it("refuses a body over the API server's limit before sending it", async () => {
    const error = await errorOf(
      client.create("test/create", CONFIG_MAPS, configMap("a", undefined, { big: "x".repeat(4 << 20) })),
    );
    expect(error).toMatchObject({ reason: "BadRequest", status: 413 });
    expect(server.requests).toEqual([]);
  });
});

describe("writing", () => {
  it("creates in the object's namespace with strict field validation, between the points of its effect", async () => {
    await client.create("test/create", CONFIG_MAPS, configMap("a"));
    expect(lastRequest()).toMatchObject({ method: "POST", path: "/api/v1/namespaces/shop/configmaps" });
    expect(lastRequest().query.get("fieldValidation")).toBe("Strict");
    expect(points).toEqual(["test/create/before", "test/create/after"]);
  });

  it("is an effect for each kind of write, and reads are none", async () => {
    await client.update("test/update", CONFIG_MAPS, configMap("a", "7"));
    await client.mergePatch("test/patch", CONFIG_MAPS, NAME, {});
    await client.apply("test/apply", CONFIG_MAPS, { ...configMap("a") }, { fieldManager: "m" });
    await client.delete("test/delete", CONFIG_MAPS, NAME);
    const writes = [...points];
    await client.get(CONFIG_MAPS, NAME);
    expect(points).toEqual(writes);
    expect(writes.filter((point) => point.endsWith("/after"))).toEqual([
      "test/update/after",
      "test/patch/after",
      "test/apply/after",
      "test/delete/after",
    ]);
  });

  it("replaces the status through its subresource", async () => {
    await client.update("test/update", CONFIG_MAPS, configMap("a", "7"), "status");
    expect(lastRequest()).toMatchObject({ method: "PUT", path: "/api/v1/namespaces/shop/configmaps/a/status" });
  });

  it.each([
    [{ force: true }, "true"],
    [{}, null],
  ])("applies by server-side apply, with %j", async (forced, inQuery) => {
    const configuration = { apiVersion: "v1", kind: "ConfigMap", metadata: NAME, data: { k: "v" } };
    await client.apply("test/apply", CONFIG_MAPS, configuration, { fieldManager: "tidemark-agent", ...forced });
    expect(lastRequest()).toMatchObject({ method: "PATCH", body: JSON.stringify(configuration) });
    expect(lastRequest().headers["content-type"]).toBe("application/apply-patch+yaml");
    expect(lastRequest().query.get("fieldManager")).toBe("tidemark-agent");
    expect(lastRequest().query.get("force")).toBe(inQuery);
  });

  it("patches by JSON merge patch", async () => {
    await client.mergePatch("test/patch", CONFIG_MAPS, NAME, { data: { k: null } });
    expect(lastRequest()).toMatchObject({ method: "PATCH", body: '{"data":{"k":null}}' });
    expect(lastRequest().headers["content-type"]).toBe("application/merge-patch+json");
  });

  it("deletes under its preconditions, and tells whether there was anything", async () => {
    const options = { uid: "u", resourceVersion: "7" };
    expect(await client.delete("test/delete", CONFIG_MAPS, NAME, options)).toBe(true);
    expect(JSON.parse(lastRequest().body)).toEqual({
      apiVersion: "v1",
      kind: "DeleteOptions",
      preconditions: { uid: "u", resourceVersion: "7" },
    });
    server.behave((_request, response) => answerStatus(response, 404, "NotFound", "not found", { name: "a" }));
    expect(await client.delete("test/delete", CONFIG_MAPS, NAME)).toBe(false);
    server.behave((_request, response) =>
      answerStatus(response, 409, "Conflict", "the UID in the precondition is old"),
    );
    expect((await errorOf(client.delete("test/delete", CONFIG_MAPS, NAME, { uid: "old" }))).reason).toBe("Conflict");
  });

  it("logs each warning of the server once", async () => {
    const { log, lines } = createRecordingLog();
    const warned = createKubeClient({
      connection: { server: server.server },
      effects: { run: (_point, effect) => effect() },
      log,
    });
    server.behave((_request, response) =>
      answerJson(response, 200, configMap("a"), { warning: '299 - "v1 is deprecated"' }),
    );
    for (let i = 0; i < 3; i += 1) await warned.create("test/create", CONFIG_MAPS, configMap("a"));
    await warned.close();
    expect(lines.map(({ warning }) => warning)).toEqual(['299 - "v1 is deprecated"']);
  });
});

describe("watching", () => {
  const watch = async (signal = new AbortController().signal) => {
    const seen: unknown[] = [];
    for await (const event of client.watch(CONFIG_MAPS, { resourceVersion: "5", signal })) seen.push(event);
    return seen;
  };

  it("yields events and bookmarks until the server ends it", async () => {
    server.behave((_request, response) => {
      sendEvents(
        response,
        { type: "ADDED", object: configMap("a", "6") },
        { type: "BOOKMARK", object: { kind: "ConfigMap", metadata: { resourceVersion: "8" } } },
      );
      response.end();
    });
    expect(await watch()).toEqual([
      { type: "ADDED", object: configMap("a", "6") },
      { type: "BOOKMARK", resourceVersion: "8" },
    ]);
    expect(Object.fromEntries(lastRequest().query)).toMatchObject({
      watch: "true",
      allowWatchBookmarks: "true",
      resourceVersion: "5",
    });
  });

  it("puts an event together whose bytes arrive one by one, multi-byte characters included", async () => {
    const object = configMap("a", "6", { sea: "Flut und Ebbe, 潮" });
    server.behave((_request, response) => {
      sendEvents(response);
      const bytes = Buffer.from(`${JSON.stringify({ type: "ADDED", object })}\n`);
      const sendFrom = (at: number): void => {
        if (at === bytes.length) response.end();
        else response.write(bytes.subarray(at, at + 1), () => sendFrom(at + 1));
      };
      sendFrom(0);
    });
    expect(await watch()).toEqual([{ type: "ADDED", object }]);
  });

  it.each([
    ["as the answer", 410],
    ["as an event", 200],
  ])("throws Expired when the server says 410 %s", async (_where, status) => {
    const gone = { kind: "Status", code: 410, reason: "Expired", message: "too old resource version" };
    server.behave((_request, response) => {
      if (status === 410) answerJson(response, 410, gone);
      else {
        sendEvents(response, { type: "ERROR", object: gone });
        response.end();
      }
    });
    expect((await errorOf(watch())).reason).toBe("Expired");
  });

  it("throws Unreachable when the connection breaks, and Internal on what is no event", async () => {
    server.behave((_request, response) => {
      sendEvents(response, { type: "ADDED", object: configMap("a", "6") });
      setTimeout(() => response.destroy(), 20);
    });
    expect((await errorOf(watch())).reason).toBe("Unreachable");
    server.behave((_request, response) => {
      sendEvents(response);
      response.end("<html>\n");
    });
    expect((await errorOf(watch())).reason).toBe("Internal");
  });

  it("ends without an error when its signal aborts", async () => {
    const controller = new AbortController();
    server.behave((_request, response) => sendEvents(response, { type: "ADDED", object: configMap("a", "6") }));
    let seen = 0;
    for await (const _event of client.watch(CONFIG_MAPS, { resourceVersion: "5", signal: controller.signal })) {
      seen += 1;
      controller.abort();
    }
    expect(seen).toBe(1);
  });

  it("leaves the connections for requests free, however many watches are open", async () => {
    const controllers = Array.from({ length: 40 }, () => new AbortController());
    let open = 0;
    server.behave((request, response) => {
      if (!isWatch(request)) return answerJson(response, 200, configMap("a"));
      open += 1;
      sendEvents(response);
    });
    const watches = controllers.map(({ signal }) => watch(signal));
    await eventually("all watches are open", () => open === 40);
    expect(await client.get(CONFIG_MAPS, NAME)).toBeDefined();
    for (const controller of controllers) controller.abort();
    expect(await Promise.all(watches)).toHaveLength(40);
  });
});
