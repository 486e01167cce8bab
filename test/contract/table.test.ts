// Tables: what `kubectl get` shows of each kind.
import { afterAll, beforeAll, describe, expect, it } from "@jest/globals";
import type { BodyColumn, BodyRow } from "./answer-body.ts";
import { type ApiClient, MERGE, TABLE } from "./api-client.ts";
import type { ContractTarget } from "./contract-target.ts";
import { configMap, startWidgets, widget } from "./widget.ts";

let target: ContractTarget;
let api: ApiClient;
let namespace: string;
let widgets: string;

beforeAll(async () => {
  ({ target, api, namespace, widgets } = await startWidgets());
});

afterAll(() => target.close());

async function table(path: string) {
  const { body } = await api.get(path, { accept: `${TABLE},application/json` });
  return { columns: body["columnDefinitions"], rows: body["rows"], body };
}

const cellsOf = ({ columns, rows }: { columns: BodyColumn[]; rows: BodyRow[] }): Record<string, unknown> =>
  Object.fromEntries(columns.map((column, i) => [column.name, rows[0]?.cells[i]]));

describe("a custom kind", () => {
  it("shows its definition's columns, a filter's match, and the age as text", async () => {
    await api.post(widgets, widget("shown", { size: 7 }));
    await api.patch(`${widgets}/shown/status`, MERGE, { status: { conditions: [{ type: "Ready", status: "True" }] } });
    const shown = await table(widgets);
    expect(shown.body).toMatchObject({ kind: "Table", apiVersion: "meta.k8s.io/v1" });
    expect(shown.columns.map(({ name, type, priority }) => [name, type, priority])).toEqual([
      ["Name", "string", 0],
      ["Size", "integer", 0],
      ["Ready", "string", 0],
      ["State", "string", 0],
      ["Color", "string", 1],
      ["Age", expect.stringMatching(/string|date/), 0],
    ]);
    expect(cellsOf(shown)).toEqual({
      Name: "shown",
      Size: 7,
      Ready: "True",
      State: "Ready",
      Color: "red",
      Age: expect.stringMatching(/^\d+s$/),
    });
  });

  it("shows the first of several matches, in the order that was applied last", async () => {
    await api.post(widgets, widget("several"));
    const path = `${widgets}/several/status`;
    const applied = async (...types: string[]): Promise<unknown> => {
      const conditions = types.map((type) => ({ type, status: "True" }));
      await api.apply(path, "contract", { ...widget("several"), spec: undefined, status: { conditions } }, true);
      return cellsOf(await table(`${widgets}/several`))["State"];
    };
    expect(await applied("Ready", "Stalled")).toBe("Ready");
    expect(await applied("Stalled", "Reconciling", "Ready")).toBe("Stalled");
    expect(await applied("Reconciling", "Ready")).toBe("Reconciling");
  });

  it("shows nothing where there is nothing", async () => {
    await api.post(widgets, widget("without-status"));
    expect(cellsOf(await table(`${widgets}/without-status`))["Ready"]).toBeNull();
  });

  it.each([
    ["", "PartialObjectMetadata"],
    ["includeObject=Object", "Widget"],
  ])("carries with each row, for %j, a %s", async (query, kind) => {
    const { rows } = await table(`${widgets}?${query}`);
    expect(rows[0]?.object).toMatchObject({ kind, metadata: { namespace } });
  });

  it("carries no object when none is asked for", async () => {
    const { rows } = await table(`${widgets}?includeObject=None`);
    expect(rows[0]?.object ?? null).toBeNull();
  });
});

describe("a built-in kind", () => {
  const inNamespace = (plural: string) => `/api/v1/namespaces/${namespace}/${plural}`;

  it("PersistentVolumeClaim shows status, volume, capacity and class", async () => {
    await api.post(inNamespace("persistentvolumeclaims"), {
      metadata: { name: "claim" },
      spec: { accessModes: ["ReadWriteOnce"], storageClassName: "none", resources: { requests: { storage: "1Gi" } } },
    });
    const cells = cellsOf(await table(`${inNamespace("persistentvolumeclaims")}/claim`));
    expect(cells).toMatchObject({
      Name: "claim",
      Status: "Pending",
      Capacity: "",
      StorageClass: "none",
      VolumeMode: "Filesystem",
    });
  });

  it("PersistentVolume shows capacity, access modes, reclaim policy and claim", async () => {
    const name = `${namespace}-pv`;
    await api.post("/api/v1/persistentvolumes", {
      metadata: { name },
      spec: {
        capacity: { storage: "1Gi" },
        accessModes: ["ReadWriteOnce", "ReadOnlyMany"],
        storageClassName: "none",
        claimRef: { namespace, name: "other" },
        csi: { driver: "local.tidemark.dev", volumeHandle: "h" },
      },
    });
    const cells = cellsOf(await table(`/api/v1/persistentvolumes/${name}`));
    expect(cells).toMatchObject({
      Capacity: "1Gi",
      "Access Modes": "RWO,ROX",
      "Reclaim Policy": "Retain",
      Claim: `${namespace}/other`,
    });
    await api.delete(`/api/v1/persistentvolumes/${name}`);
  });

  it("Event shows when, what, about what, and the message", async () => {
    await api.post(inNamespace("events"), {
      metadata: { name: "event" },
      involvedObject: { kind: "Widget", namespace, name: "w" },
      reason: "Grown",
      message: "grew to 2Gi",
      type: "Normal",
      lastTimestamp: new Date().toISOString().replace(/\.\d+Z$/, "Z"),
    });
    const cells = cellsOf(await table(`${inNamespace("events")}?fieldSelector=metadata.name=event`));
    expect(cells).toMatchObject({ Type: "Normal", Reason: "Grown", Object: "widget/w", Message: "grew to 2Gi" });
    expect(cells["Last Seen"]).toMatch(/^\d+s$/);
  });

  it("Lease shows its holder", async () => {
    const leases = `/apis/coordination.k8s.io/v1/namespaces/${namespace}/leases`;
    await api.post(leases, { metadata: { name: "lease" }, spec: { holderIdentity: "me" } });
    expect(cellsOf(await table(leases))).toMatchObject({ Name: "lease", Holder: "me" });
  });

  it("StorageClass shows its provisioner, and whether it is the default", async () => {
    const name = `${namespace}-class`;
    const classes = "/apis/storage.k8s.io/v1/storageclasses";
    const annotations = { "storageclass.kubernetes.io/is-default-class": "true" };
    await api.post(classes, { metadata: { name, annotations }, provisioner: "local.tidemark.dev" });
    expect(cellsOf(await table(`${classes}/${name}`))).toMatchObject({
      Name: `${name} (default)`,
      Provisioner: "local.tidemark.dev",
      ReclaimPolicy: "Delete",
      VolumeBindingMode: "Immediate",
    });
    await api.delete(`${classes}/${name}`);
  });

  it("ConfigMap shows how much is in it", async () => {
    await api.post(inNamespace("configmaps"), configMap("two", { a: "1", b: "2" }));
    expect(String(cellsOf(await table(`${inNamespace("configmaps")}/two`))["Data"])).toBe("2");
  });
});
