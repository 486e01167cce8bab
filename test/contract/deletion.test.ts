// Deleting: preconditions, finalizers, owners, collections, namespaces and kinds with their content.
import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, describe, expect, it } from "@jest/globals";
import { untilRead } from "../harness/wait-for.ts";
import { type ApiClient, type Json, MERGE } from "./api-client.ts";
import type { ContractTarget } from "./contract-target.ts";
import { configMap, startWidgets, WIDGET_API_VERSION, widget, widgetDefinition } from "./widget.ts";

let target: ContractTarget;
let api: ApiClient;
let namespace: string;
let widgets: string;
let configMaps: string;

beforeAll(async () => {
  ({ target, api, namespace, widgets, configMaps } = await startWidgets());
});

afterAll(() => target.close());

const gone = (path: string) =>
  untilRead(
    `${path} to be gone`,
    () => api.get(path),
    ({ code }) => code === 404,
  );

/** The collector of a cluster watches each kind by itself, and knows of no dependent that it has not seen yet: one without an owner
 * that is made after the others goes after they were seen. */
async function collectorHasSeenAllConfigMaps(): Promise<void> {
  const absent = { apiVersion: WIDGET_API_VERSION, kind: "Widget", metadata: { name: "absent", uid: randomUUID() } };
  const { body } = await api.post(configMaps, configMap(`ownerless-${randomUUID()}`, {}, ownedBy(absent)));
  await gone(`${configMaps}/${body["metadata"].name}`);
}

interface Owner {
  apiVersion: string;
  kind: string;
  metadata: { name: string; uid: string };
}

function ownedBy(owner: Owner, more: Json = {}) {
  const { apiVersion, kind, metadata } = owner;
  return { ownerReferences: [{ apiVersion, kind, name: metadata.name, uid: metadata.uid, ...more }] };
}

describe("an object", () => {
  it("is gone at once, with a Status that names it", async () => {
    const { body: object } = await api.post(widgets, widget("plain"));
    const { code, body } = await api.delete(`${widgets}/plain`);
    expect(code).toBe(200);
    expect(body).toMatchObject({
      kind: "Status",
      status: "Success",
      details: { name: "plain", group: "contract.tidemark.dev", kind: "widgets", uid: object["metadata"].uid },
    });
    expect((await api.get(`${widgets}/plain`)).code).toBe(404);
    expect((await api.delete(`${widgets}/plain`)).code).toBe(404);
  });

  it.each(["uid", "resourceVersion"] as const)(
    "stays when the precondition on %s does not hold: 409",
    async (field) => {
      const name = `guarded-${field.toLowerCase()}`;
      const { body } = await api.post(widgets, widget(name));
      const other = field === "uid" ? "00000000-0000-0000-0000-000000000000" : "1";
      const refused = await api.delete(`${widgets}/${name}`, { preconditions: { [field]: other } });
      expect(refused.code).toBe(409);
      expect(refused.body["reason"]).toBe("Conflict");
      const granted = await api.delete(`${widgets}/${name}`, { preconditions: { [field]: body["metadata"][field] } });
      expect(granted.code).toBe(200);
    },
  );

  it("with a finalizer is marked, and goes when the last one leaves", async () => {
    await api.post(widgets, widget("held", {}, { finalizers: ["example.com/a", "example.com/b"] }));
    const path = `${widgets}/held`;
    const { code, body } = await api.delete(path);
    expect(code).toBe(200);
    expect(body["metadata"].deletionTimestamp).toBeDefined();
    await api.patch(path, MERGE, { metadata: { finalizers: ["example.com/b"] } });
    expect((await api.get(path)).body["metadata"].finalizers).toEqual(["example.com/b"]);
    const added = await api.patch(path, MERGE, { metadata: { finalizers: ["example.com/b", "example.com/c"] } });
    expect(added.code).toBe(422);
    await api.patch(path, MERGE, { metadata: { finalizers: null } });
    expect((await api.get(path)).code).toBe(404);
  });

  it("is not deleted by a dry run", async () => {
    await api.post(widgets, widget("dry"));
    expect((await api.delete(`${widgets}/dry`, { dryRun: ["All"] })).code).toBe(200);
    expect((await api.get(`${widgets}/dry`)).code).toBe(200);
  });
});

describe("owners", () => {
  it("take their dependents with them, over more than one level and across kinds", async () => {
    const { body: owner } = await api.post(widgets, widget("owner"));
    const { body: child } = await api.post(configMaps, configMap("child", {}, ownedBy(owner)));
    await api.post(configMaps, configMap("grandchild", {}, ownedBy(child)));
    await api.delete(`${widgets}/owner`);
    await gone(`${configMaps}/child`);
    await gone(`${configMaps}/grandchild`);
  });

  it("leave a dependent that has another owner, which is then its only one", async () => {
    const { body: first } = await api.post(widgets, widget("first-owner"));
    const { body: second } = await api.post(widgets, widget("second-owner"));
    const ownerReferences = [first, second].flatMap((owner) => ownedBy(owner).ownerReferences);
    await api.post(configMaps, configMap("shared", {}, { ownerReferences }));
    await api.delete(`${widgets}/first-owner`);
    const { body } = await untilRead(
      "the first owner to be forgotten",
      () => api.get(`${configMaps}/shared`),
      (answer) => answer.code === 404 || answer.body["metadata"].ownerReferences.length === 1,
    );
    expect(body["metadata"].ownerReferences[0]?.name).toBe("second-owner");
  });

  it("leave their dependents behind, without the reference, when they are deleted as Orphan", async () => {
    const { body: owner } = await api.post(widgets, widget("orphaning"));
    await api.post(configMaps, configMap("orphan", {}, ownedBy(owner)));
    await collectorHasSeenAllConfigMaps();
    await api.delete(`${widgets}/orphaning`, { propagationPolicy: "Orphan" });
    await gone(`${widgets}/orphaning`);
    const { code, body } = await api.get(`${configMaps}/orphan`);
    expect(code).toBe(200);
    expect(body["metadata"].ownerReferences).toBeUndefined();
  });

  it("deleted as Foreground wait for the dependents that block them", async () => {
    const { body: owner } = await api.post(widgets, widget("waiting"));
    const blocking = { ...ownedBy(owner, { blockOwnerDeletion: true }), finalizers: ["example.com/hold"] };
    await api.post(configMaps, configMap("blocking", {}, blocking));
    await collectorHasSeenAllConfigMaps();
    const { body } = await api.delete(`${widgets}/waiting`, { propagationPolicy: "Foreground" });
    expect(body["metadata"].finalizers).toEqual(["foregroundDeletion"]);
    await untilRead(
      "the dependent to be deleted",
      () => api.get(`${configMaps}/blocking`),
      (answer) => answer.body["metadata"].deletionTimestamp !== undefined,
    );
    expect((await api.get(`${widgets}/waiting`)).code).toBe(200);
    await api.patch(`${configMaps}/blocking`, MERGE, { metadata: { finalizers: null } });
    await gone(`${widgets}/waiting`);
  });

  it("that never were do not keep a dependent", async () => {
    const absent = { apiVersion: WIDGET_API_VERSION, kind: "Widget", metadata: { name: "never", uid: "no-such-uid" } };
    await api.post(configMaps, configMap("ownerless", {}, ownedBy(absent)));
    await gone(`${configMaps}/ownerless`);
  });
});

describe("a collection", () => {
  it("is deleted as far as the selector goes", async () => {
    for (const [name, tier] of [
      ["c1", "x"],
      ["c2", "x"],
      ["c3", "y"],
    ] as const)
      await api.post(configMaps, configMap(name, {}, { labels: { tier } }));
    expect((await api.delete(`${configMaps}?labelSelector=tier=x`)).code).toBe(200);
    const { body } = await api.get(`${configMaps}?labelSelector=tier`);
    expect(body["items"].map(({ metadata }) => metadata.name)).toEqual(["c3"]);
  });
});

describe("a namespace", () => {
  it("goes with everything in it, and takes nothing new meanwhile", async () => {
    const name = `${namespace}-doomed`;
    const path = `/api/v1/namespaces/${name}`;
    await api.post("/api/v1/namespaces", { metadata: { name } });
    await api.post(`${path}/configmaps`, configMap("held", {}, { finalizers: ["example.com/hold"] }));
    await api.post(`/apis/${WIDGET_API_VERSION}/namespaces/${name}/widgets`, widget("inside"));
    const { body } = await api.delete(path);
    expect(body).toMatchObject({ kind: "Namespace", status: { phase: "Terminating" } });
    await gone(`/apis/${WIDGET_API_VERSION}/namespaces/${name}/widgets/inside`);
    const refused = await api.post(`${path}/configmaps`, configMap("late"));
    expect(refused.code).toBe(403);
    expect(refused.body["details"].causes[0]?.reason).toBe("NamespaceTerminating");
    expect((await api.get(path)).code).toBe(200);
    await api.patch(`${path}/configmaps/held`, MERGE, { metadata: { finalizers: null } });
    await gone(path);
  });

  it.each(["default", "kube-system"])("%s is there from the start", async (name) => {
    expect((await api.get(`/api/v1/namespaces/${name}`)).body["status"].phase).toBe("Active");
  });
});

describe("a kind", () => {
  it("is not served any more once its definition and its objects are gone", async () => {
    const definition = widgetDefinition("Gadget");
    const path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    const gadgets = widgets.replace("/widgets", "/gadgets");
    await api.post(path, definition);
    await untilRead(
      "Gadgets to be served",
      () => api.get(gadgets),
      ({ code }) => code === 200,
    );
    await api.post(gadgets, { ...widget("g"), kind: "Gadget" });
    expect((await api.delete(`${path}/${definition.metadata.name}`)).code).toBe(200);
    await gone(`${path}/${definition.metadata.name}`);
    await gone(gadgets);
    const { body } = await untilRead(
      "Gadgets to be served no more",
      () => api.get(`/apis/${WIDGET_API_VERSION}`),
      (answer) => answer.body["resources"].every(({ name }) => !name.startsWith("gadgets")),
    );
    expect(body["resources"].map(({ name }) => name)).toContain("widgets");
  });
});
