// The pod webhook as the API server meets it, over TLS, and what is told to pods that it did not see.
import { connect } from "node:tls";
import { afterAll, beforeAll, describe, expect, it } from "@jest/globals";
import {
  EVENTS,
  PERSISTENT_VOLUME_CLAIMS,
  PERSISTENT_VOLUMES,
  PODS,
  type PodVolume,
  STORAGE_CLASSES,
} from "../../../src/contracts/kubernetes/resources.ts";
import { buildClaim } from "../../builders/claim.ts";
import { buildPod, buildReview, ephemeral, ofClaim } from "../../builders/pod-review.ts";
import { connectionsOf, listeningServer, openSilent } from "../../harness/silent-connections.ts";
import { waitFor } from "../../harness/wait-for.ts";
import {
  type AdmissionAnswer,
  admit,
  applyConfiguration,
  type Replica,
  SYSTEM_NAMESPACE,
  send,
  startReplica,
  startWebhookCluster,
  trustedAuthorities,
  type WebhookCluster,
} from "./webhook-under-test.ts";

const GIB = 1 << 30;
const LIMIT_MS = 120_000;
const namespace = "shop";

let cluster: WebhookCluster;
let leader: Replica;
let follower: Replica;

beforeAll(async () => {
  cluster = await startWebhookCluster();
  for (const [name, provisioner, annotations] of [
    ["fast", "local.tidemark.dev", {}],
    ["wide", "span.tidemark.dev", { "storageclass.kubernetes.io/is-default-class": "true" }],
    ["foreign", "ebs.csi.aws.com", {}],
  ] as const)
    await cluster.client.create("test/class", STORAGE_CLASSES, {
      apiVersion: "storage.k8s.io/v1",
      kind: "StorageClass",
      metadata: { name, annotations },
      provisioner,
    });
  [leader, follower] = [await startReplica(cluster), await startReplica(cluster)];
  await Promise.all([leader.synced, follower.synced]);
  leader.duty.begin();
  await applyConfiguration(cluster.client);
  await waitFor("the CA in the configuration", async () => (await trustedAuthorities(cluster.client)) || undefined);
  for (const replica of [leader, follower])
    await waitFor("an answer over TLS", () => admit(cluster, replica, buildPod([ofClaim("none")])));
}, LIMIT_MS);

afterAll(async () => {
  await follower?.stop();
  await leader?.stop();
  await cluster?.stop();
}, LIMIT_MS);

let claims = 0;
async function makeClaim(storageClassName: string | undefined, spec: object = {}): Promise<PodVolume> {
  claims += 1;
  const claim = buildClaim({ name: `claim-${claims}`, namespace, request: "1Gi", spec: { storageClassName, ...spec } });
  await cluster.client.create("test/claim", PERSISTENT_VOLUME_CLAIMS, claim);
  return ofClaim(claim.metadata.name);
}

const annotationsIn = ({ patch }: AdmissionAnswer): unknown =>
  patch.find(({ path }) => path === "/metadata/annotations")?.value;

describe("the webhook", () => {
  it("marks a pod whose claim was made a moment before, on either replica", async () => {
    for (const replica of [leader, follower]) {
      const { allowed, uid, patch } = await admit(cluster, replica, buildPod([await makeClaim("fast")]));
      expect({ allowed, uid }).toEqual({ allowed: true, uid: "705ab4f5" });
      expect(patch.map(({ path }) => path)).toEqual([
        "/spec/schedulerName",
        "/spec/containers/0/resources",
        "/metadata/annotations",
      ]);
    }
  });

  it("counts ephemeral claims, the default class' among them, beside named ones", async () => {
    const volumes = [await makeClaim("fast"), ephemeral("a", "fast", "2Gi"), ephemeral("b", undefined, "3Gi")];
    expect(annotationsIn(await admit(cluster, leader, buildPod(volumes)))).toEqual({
      "capacity.tidemark.dev/fast": `${3 * GIB}`,
      "capacity.tidemark.dev/wide": `${3 * GIB}`,
    });
  });

  it("marks a pod of which some claims are bound already, to volumes of a class that is gone", async () => {
    await cluster.client.create("test/volume", PERSISTENT_VOLUMES, {
      apiVersion: "v1",
      kind: "PersistentVolume",
      metadata: { name: "pv-1" },
      spec: {
        csi: { driver: "local.tidemark.dev", volumeHandle: "1" },
        capacity: { storage: "1Gi" },
        accessModes: ["ReadWriteOnce"],
        storageClassName: "gone",
      },
    });
    const bound = await makeClaim("gone", { volumeName: "pv-1" });
    await waitFor("the volume in the cache", async () => {
      const { patch } = await admit(cluster, leader, buildPod([bound]));
      return patch.length > 0 || undefined;
    });
    const answer = await admit(cluster, leader, buildPod([bound, await makeClaim("fast")]));
    expect(annotationsIn(answer)).toEqual({
      "capacity.tidemark.dev/gone": "0",
      "capacity.tidemark.dev/fast": `${GIB}`,
    });
  });

  it("leaves pods alone that have no claim of ours, and those of its own namespace", async () => {
    const foreign = buildPod([await makeClaim("foreign"), ephemeral("a", "", "1Gi"), ephemeral("b", "no-such", "1Gi")]);
    const own = buildPod([ephemeral("a", "fast", "1Gi")]);
    own.metadata.namespace = SYSTEM_NAMESPACE;
    for (const pod of [foreign, own])
      expect(await admit(cluster, leader, pod)).toEqual({ uid: "705ab4f5", allowed: true, patch: [], warnings: [] });
  });

  it("lets a pod pass whose claim does not exist, and says what that means", async () => {
    const { allowed, patch, warnings } = await admit(cluster, leader, buildPod([ofClaim("later")]));
    expect({ allowed, patch }).toEqual({ allowed: true, patch: [] });
    expect(warnings).toEqual([expect.stringContaining('claim "later" does not exist yet')]);
  });

  it("asks the API server for few claims at a time, however many pods come at once, and lets all of those pass", async () => {
    const volumes = Array.from({ length: 100 }, (_, index) => ofClaim(`none-${index}`));
    const flood = Array.from({ length: 30 }, () => admit(cluster, leader, buildPod(volumes)));
    for (const { allowed, warnings } of await Promise.all(flood)) {
      expect(allowed).toBe(true);
      expect(warnings).toHaveLength(1);
    }
    expect(leader.mostReads()).toBe(8);
    const after = buildPod([await makeClaim("fast")]);
    await waitFor("a pod to be marked", async () => {
      const { patch } = await admit(cluster, leader, after);
      return patch.length > 0 || undefined;
    });
  });

  it("has few connections at once of those who are silent, and answers the API server", async () => {
    const { server, started: flooded } = await listeningServer(() => startReplica(cluster));
    await flooded.synced;
    flooded.duty.begin();
    const pod = buildPod([await makeClaim("fast")]);
    await waitFor("an answer over TLS", () => admit(cluster, flooded, pod));
    const silent = await openSilent(flooded.port, 700);
    try {
      expect(await admit(cluster, flooded, pod)).toMatchObject({ allowed: true });
      expect(await connectionsOf(server)).toBeLessThanOrEqual(512);
      await waitFor("the oldest to be closed", async () => silent[0]?.closed || undefined);
    } finally {
      for (const socket of silent) socket.destroy();
      await flooded.stop();
    }
  });

  it("tells its requests by what became of the pod, and how long they took", async () => {
    const text = await leader.metrics();
    for (const result of ["Marked", "NotOurs", "NotPods"])
      expect(text).toMatch(new RegExp(`duration_seconds_count\\{result="${result}"\\} [1-9]`));
  });
});

describe("a request that is no admission", () => {
  const whole = JSON.stringify(buildReview(buildPod([ofClaim("data")])));
  const ask = async (body: string | Buffer, call: object = {}) => {
    const ca = await trustedAuthorities(cluster.client);
    return send({ port: leader.port, ca, ...call }, body);
  };

  it.each<[string, string, object, number, string]>([
    ["truncated", whole.slice(0, 100), {}, 400, "no JSON in 100 characters, or truncated"],
    ["foreign", JSON.stringify({ kind: "Pod" }), {}, 400, "no AdmissionReview of admission.k8s.io/v1: apiVersion"],
    ["huge", " ".repeat((4 << 20) + 1), {}, 413, "body is limited to 4Mi"],
    ["of another type", whole, { headers: { "content-type": "text/plain" } }, 415, "must be application/json"],
    ["of another method", whole, { method: "PUT" }, 405, "takes POST"],
    ["of another path", whole, { path: "/metrics" }, 404, "there is nothing but /mutate-pods"],
  ])("is refused with a status and a sentence: %s", async (_name, body, call, status, text) => {
    const answer = await ask(body, call);
    expect(answer.status).toBe(status);
    expect(answer.text).toContain(text);
  });

  it("is refused when it breaks off, and the next one is answered", async () => {
    const before = (await leader.metrics()).match(/count\{result="Refused"\} (\d+)/)?.[1] ?? "0";
    const ca = await trustedAuthorities(cluster.client);
    const socket = connect({ host: "127.0.0.1", port: leader.port, ca, checkServerIdentity: () => undefined });
    const head = `POST /mutate-pods HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\ncontent-length: ${whole.length}\r\n\r\n`;
    socket.write(`${head}${whole.slice(0, 50)}`, () => socket.destroy());
    await waitFor("the refusal", async () => {
      const now = /count\{result="Refused"\} (\d+)/.exec(await leader.metrics())?.[1];
      return Number(now) > Number(before) || undefined;
    });
    expect((await ask(whole)).status).toBe(200);
  });

  it("is not taken over a connection that trusts another CA", async () => {
    await expect(ask(whole, { ca: "" })).rejects.toThrow();
    await expect(ask(whole, { serverName: "other.tidemark-system.svc" })).rejects.toThrow(/altnames/);
  });
});

describe("a pod that slipped through", () => {
  const eventsOn = async (name: string, where = namespace) =>
    (await cluster.client.list(EVENTS, { namespace: where, fieldSelector: `involvedObject.name=${name}` })).items;
  const makePod = async (name: string, volumes: PodVolume[], spec: object = {}) => {
    const pod = buildPod(volumes, spec);
    await cluster.client.create("test/pod", PODS, { ...pod, metadata: { ...pod.metadata, name } });
  };
  const isTold = (name: string, where = namespace) =>
    waitFor(`an Event on ${name}`, async () => ((await eventsOn(name, where)).length > 0 ? true : undefined));

  it("is told once, by whoever leads, and is counted while it waits; others are not told", async () => {
    await makePod("marked", [await makeClaim("fast")], { schedulerName: "volcano" });
    await makePod("foreign", [await makeClaim("foreign")]);
    await makePod("missed", [await makeClaim("fast")]);
    await isTold("missed");
    expect(await leader.metrics()).toContain("tidemark_operator_pods_webhook_bypassed 1");

    await leader.duty.end();
    expect(await leader.metrics()).toContain("tidemark_operator_pods_webhook_bypassed 0");
    follower.duty.begin();
    await waitFor(
      "the other leader to have looked",
      async () => (await follower.metrics()).includes("tidemark_operator_pods_webhook_bypassed 1") || undefined,
    );
    const [event, ...more] = await eventsOn("missed");
    expect(more).toEqual([]);
    expect(event).toMatchObject({ reason: "WebhookBypassed", type: "Warning", count: 1 });
    expect(event?.message).toContain("default-scheduler did not check the capacity for this pod");
    expect([...(await eventsOn("marked")), ...(await eventsOn("foreign"))]).toEqual([]);

    await cluster.client.delete("test/pod", PODS, { namespace, name: "missed" });
    await makePod("missed", [await makeClaim("fast")], { nodeName: "node1" });
    await waitFor(
      "it to count no more",
      async () => (await follower.metrics()).includes("tidemark_operator_pods_webhook_bypassed 0") || undefined,
    );
    await follower.duty.end();
    leader.duty.begin();
  });

  it("is told when its claim comes after it", async () => {
    await makePod("early", [ofClaim(`claim-${claims + 1}`)]);
    await makeClaim("fast");
    await isTold("early");
  });

  it("is not told where the configuration leaves its namespace out", async () => {
    const leaveOut = { key: "kubernetes.io/metadata.name", operator: "NotIn", values: [namespace] };
    await applyConfiguration(cluster.client, { namespaceSelector: { matchExpressions: [leaveOut] } });
    await leader.duty.end();
    // A replica that starts now has the selector in its first list.
    const another = await startReplica(cluster);
    await makePod("left-out", [await makeClaim("fast")]);
    another.duty.begin();
    await another.synced;
    await makePod("left-out-too", [ephemeral("a", "fast", "1Gi")]);
    await cluster.client.create("test/pod", PODS, {
      ...buildPod([ephemeral("a", "fast", "1Gi")]),
      metadata: { name: "elsewhere", namespace: "office" },
    });
    await isTold("elsewhere", "office");
    expect([...(await eventsOn("left-out")), ...(await eventsOn("left-out-too"))]).toEqual([]);
    await applyConfiguration(cluster.client);
    await another.stop();
    leader.duty.begin();
  });
});
