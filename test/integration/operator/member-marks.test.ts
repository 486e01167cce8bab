// Labels and annotations of a claim on its span's members: from their beginning, kept up, and only what the class allows.
import { randomUUID } from "node:crypto";
import { status } from "@grpc/grpc-js";
import { afterAll, beforeAll, describe, expect, it } from "@jest/globals";
import { volumeHandleOf } from "../../../src/contracts/identity.ts";
import type { FilesystemLayout } from "../../../src/contracts/kinds/filesystem-layout.ts";
import type { KubeObject } from "../../../src/contracts/kubernetes/object.ts";
import { PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES } from "../../../src/contracts/kubernetes/resources.ts";
import { API_VERSION, MEMBER_NAMESPACE } from "../../../src/contracts/names.ts";
import { createMemberHome } from "../../../src/operator/apply/member-home.ts";
import { createMemberClaim } from "../../../src/operator/apply/member-steps.ts";
import { KEPT_BY_GITOPS, memberLabels } from "../../../src/operator/volumes/member-objects.ts";
import { createLogger } from "../../../src/platform/process/log.ts";
import { buildClaim } from "../../builders/claim.ts";
import { untilRead } from "../../harness/wait-for.ts";
import { type ApiServer, startApiServer } from "./api-server.ts";
import type { TestCluster } from "./cluster.ts";
import { provisionedSpan } from "./provisioned-span.ts";
import { type SpanCluster, startSpanCluster } from "./span-cluster.ts";
import { isAttached, type SpanUnderTest } from "./span-under-test.ts";

const PARAMETERS = { memberLabels: "team,cost-center", memberAnnotations: "example.com/owner" };

describe("members of a class that lets them carry labels and annotations", () => {
  let tested: SpanCluster;
  let cluster: TestCluster;
  let span: SpanUnderTest;

  beforeAll(async () => {
    tested = await startSpanCluster();
    ({ cluster, span } = tested);
  });
  afterAll(() => tested.stop());

  const setOnClaim = (name: string, metadata: object) =>
    cluster.client.mergePatch("test/mark", PERSISTENT_VOLUME_CLAIMS, { namespace: "shop", name }, { metadata });

  /** Claims and PersistentVolumes of a volume's members. */
  async function objectsOf(handle: string): Promise<KubeObject[]> {
    const claims = (await cluster.client.list(PERSISTENT_VOLUME_CLAIMS, { namespace: MEMBER_NAMESPACE })).items;
    const volumes = (await cluster.client.list(PERSISTENT_VOLUMES)).items;
    return [
      ...claims.filter(({ metadata }) => metadata.name.startsWith(`${handle}-`)),
      ...volumes.filter(({ spec }) => spec.claimRef?.name?.startsWith(`${handle}-`)),
    ];
  }

  /** Of each object, sorted: its values of the allowed keys, and of two that are not. */
  function said({ metadata }: KubeObject): string {
    const { labels, annotations } = metadata;
    const texts = [labels?.["team"], labels?.["cost-center"], annotations?.["example.com/owner"]];
    return [...texts, labels?.["tier"], annotations?.["note"]].map((text) => text ?? "-").join(" ");
  }

  async function untilAllSay(handle: string, text: string, count: number): Promise<KubeObject[]> {
    return untilRead(
      `${count} objects of members to say ${text}`,
      () => objectsOf(handle),
      (objects) => objects.length === count && objects.every((object) => said(object) === text),
    );
  }

  async function provisioned(name: string): Promise<string> {
    const { handle } = await provisionedSpan(cluster, span, name, PARAMETERS);
    const members = [{ name: "m0", size: "2Gi", state: "Present" as const }];
    await span.report(handle, { nodeName: "node-a", mounted: true, members });
    return handle;
  }

  it("have the claim's, follow it, have them again where somebody takes them away, and keep their records", async () => {
    const handle = await provisioned("followed");
    await setOnClaim("followed", {
      labels: { team: "red", "cost-center": "7", tier: "gold" },
      annotations: { "example.com/owner": "ann", note: "mine" },
    });
    await untilAllSay(handle, "red 7 ann - -", 2);
    await span.target("followed", "3Gi", "2Gi");
    await span.untilLayout("m1 is attached", handle, isAttached("m1"));
    await untilAllSay(handle, "red 7 ann - -", 4);
    await setOnClaim("followed", {
      labels: { team: "blue", "cost-center": null },
      annotations: { "example.com/owner": null },
    });
    const objects = await untilAllSay(handle, "blue - - - -", 4);
    for (const { metadata } of objects) {
      const member = metadata.labels?.["tidemark.dev/member"] ?? "";
      expect(metadata.labels).toEqual({ ...memberLabels(handle.slice("fs-".length), member), team: "blue" });
      if (metadata.namespace !== undefined) expect(metadata.annotations).toMatchObject(KEPT_BY_GITOPS);
    }
    for (const { metadata } of objects) {
      const { namespace, name } = metadata;
      const [resource, of] =
        namespace === undefined ? [PERSISTENT_VOLUMES, { name }] : [PERSISTENT_VOLUME_CLAIMS, { namespace, name }];
      await cluster.client.mergePatch<KubeObject>("test/strip", resource, of, { metadata: { labels: { team: null } } });
    }
    await untilAllSay(handle, "blue - - - -", 4);
  });

  it("take up what changed while no operator ran", async () => {
    const handle = await provisioned("missed");
    await setOnClaim("missed", { labels: { team: "red" } });
    await untilAllSay(handle, "red - - - -", 2);
    await cluster.stopOperator();
    await setOnClaim("missed", { labels: { team: "green" } });
    await cluster.startOperator();
    await untilAllSay(handle, "green - - - -", 2);
  });

  it("have nothing of a claim of the same name that is not the volume's own", async () => {
    const handle = await provisioned("replaced");
    await setOnClaim("replaced", { labels: { team: "red" } });
    await untilAllSay(handle, "red - - - -", 2);
    const name = { namespace: "shop", name: "replaced" };
    await cluster.client.delete("test/delete", PERSISTENT_VOLUME_CLAIMS, name);
    const other = buildClaim({ ...name, storageClassName: "span" });
    await cluster.client.create("test/claim", PERSISTENT_VOLUME_CLAIMS, {
      ...other,
      metadata: { ...other.metadata, labels: { team: "thief" } },
    });
    // An operator that begins looks at every volume.
    await cluster.stopOperator();
    await cluster.startOperator();
    // What a later volume shows, the queue has gone past for this one.
    const marker = await provisioned("marker");
    await setOnClaim("marker", { labels: { team: "done" } });
    await untilAllSay(marker, "done - - - -", 2);
    expect((await objectsOf(handle)).map(said)).toEqual(["red - - - -", "red - - - -"]);
  });

  it("are not made by a class that names what a deployment tool finds its objects by", async () => {
    const request = span.request({ memberLabels: "team,app.kubernetes.io/instance" });
    await expect(span.create(request)).rejects.toMatchObject({
      code: status.INVALID_ARGUMENT,
      details: expect.stringContaining(
        'parameter memberLabels: "app.kubernetes.io/instance" is what a deployment tool finds',
      ),
    });
    expect(await objectsOf(volumeHandleOf(request.name))).toEqual([]);
  });

  it("all stay when the claim goes and its PersistentVolume says Retain, until it says Delete", async () => {
    const { handle, volumeName } = await provisionedSpan(cluster, span, "retained", PARAMETERS);
    await span.report(handle, {
      nodeName: "node-a",
      mounted: true,
      members: [{ name: "m0", size: "2Gi", state: "Present" }],
    });
    await span.target("retained", "3Gi", "2Gi");
    await span.untilLayout("m1 is attached", handle, isAttached("m1"));
    await setOnClaim("retained", { labels: { team: "red" } });
    const before = await untilAllSay(handle, "red - - - -", 4);
    const policy = (persistentVolumeReclaimPolicy: string) =>
      cluster.client.mergePatch(
        "test/policy",
        PERSISTENT_VOLUMES,
        { name: volumeName },
        { spec: { persistentVolumeReclaimPolicy } },
      );
    await policy("Retain");
    const members = ["m0", "m1"].map((name) => ({
      name,
      size: name === "m0" ? "2Gi" : "1Gi",
      state: "Present" as const,
    }));
    await span.report(handle, { nodeName: "node-a", mounted: false, members });
    await span.unpublish(handle, "node-a");
    await cluster.client.delete("test/delete", PERSISTENT_VOLUME_CLAIMS, { namespace: "shop", name: "retained" });
    await expect(span.remove(handle)).rejects.toMatchObject({
      code: status.FAILED_PRECONDITION,
      details: `${handle} is retained: PersistentVolume ${volumeName} says Retain; set it to Delete first`,
    });
    const uids = (objects: readonly KubeObject[]) => objects.map(({ metadata }) => metadata.uid);
    const after = await objectsOf(handle);
    expect([uids(after), after.map(said)]).toEqual([uids(before), before.map(said)]);
    const volumes = (await cluster.client.list(PERSISTENT_VOLUMES)).items.filter(({ metadata }) =>
      uids(after).includes(metadata.uid),
    );
    expect(volumes.map(({ spec }) => spec.persistentVolumeReclaimPolicy)).toEqual(["Retain", "Retain"]);
    expect((await span.layout(handle))?.spec.members?.map(({ state }) => state)).toEqual(["Present", "Present"]);
    await policy("Delete");
    await span.remove(handle);
    expect(await span.claims(handle)).toEqual([]);
  });
});

describe("a member's claim that is made while nothing keeps it up", () => {
  let server: ApiServer;
  beforeAll(async () => {
    server = await startApiServer("node-a");
  });
  afterAll(() => server.stop());

  it("has what its volume's claim says from its first version", async () => {
    const metadata = {
      name: "made",
      namespace: "default",
      labels: { team: "red", tier: "gold" },
      annotations: { "example.com/owner": "ann" },
    };
    const claim = await server.client.create("test/claim", PERSISTENT_VOLUME_CLAIMS, {
      ...buildClaim(metadata),
      metadata,
    });
    const volumeUID = claim.metadata.uid ?? randomUUID();
    const layout: FilesystemLayout = {
      apiVersion: API_VERSION,
      kind: "FilesystemLayout",
      metadata: {
        name: volumeHandleOf(volumeUID),
        annotations: {
          "tidemark.dev/member-class": "member-class",
          "tidemark.dev/member-labels": "team,cost-center",
          "tidemark.dev/member-annotations": "example.com/owner",
        },
      },
      spec: { claimRef: { namespace: "default", name: "made", uid: volumeUID }, volumeUID, backend: "span" },
    };
    const { client } = server;
    const home = createMemberHome(client, { guardsRequired: false }, createLogger("test", "silent"));
    const made = await createMemberClaim({ client, home }, layout, { name: "m0", size: "1Gi", source: {} });
    expect(made.metadata.labels).toEqual({ ...memberLabels(volumeUID, "m0"), team: "red" });
    expect(made.metadata.annotations).toEqual({ ...KEPT_BY_GITOPS, "example.com/owner": "ann" });
  });
});
