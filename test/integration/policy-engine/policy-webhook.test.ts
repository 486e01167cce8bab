// The policy webhook as the API server meets it, over TLS: what is refused, what is warned of, what is always taken, and what one namespace
// cannot do to the others.
import { Agent } from "node:https";
import { afterAll, beforeAll, expect, it } from "@jest/globals";
import type { VolumePolicy } from "../../../src/contracts/kinds/volume-policy.ts";
import { PERSISTENT_VOLUME_CLAIMS } from "../../../src/contracts/kubernetes/resources.ts";
import { aClusterPolicy, aVolumePolicy, EXTEND_AT_80 } from "../../builders/policy.ts";
import { buildPolicyReview } from "../../builders/policy-review.ts";
import { worstPolicy } from "../../builders/worst-policy.ts";
import { describeReal } from "../../harness/real-parts.ts";
import { connectionsOf, listeningServer, openSilent } from "../../harness/silent-connections.ts";
import { waitFor } from "../../harness/wait-for.ts";
import type { HttpAnswer } from "../operator/webhook-under-test.ts";
import {
  type PolicyAnswer,
  post,
  type Replica,
  review,
  startPolicyWebhookCluster,
  startReplica,
} from "./policy-webhook-under-test.ts";

const LIMIT_MS = 120_000;
const UNCHECKED = /was not checked in time/;

describeReal("the policy webhook", ["bundle"], () => {
  let cluster: Awaited<ReturnType<typeof startPolicyWebhookCluster>>;
  let leader: Replica;
  let follower: Replica;

  const good = aVolumePolicy();
  const withWhen = (when: string): VolumePolicy => aVolumePolicy({ rules: [{ ...EXTEND_AT_80, when }] });
  const wrong = withWhen("volume.usedratio >= 0.8");
  /** Of a machine that has the time: on a busy one a policy may be taken unchecked, and a body not be read. */
  const answer = (asked: object, replica = leader): Promise<PolicyAnswer> =>
    waitFor("an answer that is not for want of time", async () => {
      const given = await review(cluster, replica, asked).catch((error: unknown) => {
        if (/^503: too much|CERT|certificate|handshake|SSL|EPROTO|ECONNRESET|hang up/i.test((error as Error).message))
          return undefined;
        throw error;
      });
      return given?.warnings?.some((warning) => UNCHECKED.test(warning)) === true ? undefined : given;
    });

  beforeAll(async () => {
    cluster = await startPolicyWebhookCluster();
    [leader, follower] = [await startReplica(cluster, { leads: true }), await startReplica(cluster, { leads: false })];
    for (const replica of [leader, follower]) await answer(buildPolicyReview(good), replica);
  }, LIMIT_MS);
  afterAll(async () => {
    await follower?.stop();
    await leader?.stop();
    await cluster?.stop();
  }, LIMIT_MS);

  it("takes a policy that works, without a word, on either replica", async () => {
    for (const replica of [leader, follower])
      expect(await answer(buildPolicyReview(good), replica)).toEqual({ uid: "5ab41d2e", allowed: true });
    expect(await answer(buildPolicyReview(aClusterPolicy()))).toEqual({ uid: "5ab41d2e", allowed: true });
  });

  it("refuses one that does not compile, with line, column, a caret under the place and a hint", async () => {
    for (const replica of [leader, follower]) {
      const { allowed, status } = await answer(buildPolicyReview(wrong), replica);
      expect({ allowed, code: status?.code, reason: status?.reason }).toEqual({
        allowed: false,
        code: 422,
        reason: "Invalid",
      });
      expect(status?.message.split("\n")).toEqual([
        "VolumePolicy shop/default does not compile:",
        expect.stringMatching(/^spec\.rules\[0\]\.when, line 1, column 8: /),
        "    volume.usedratio >= 0.8",
        "           ^",
        "    hint: did you mean usedRatio?",
      ]);
    }
  });

  it("refuses it where an update brings it", async () => {
    expect(await answer(buildPolicyReview(wrong, { operation: "UPDATE", oldObject: good }))).toMatchObject({
      allowed: false,
    });
  });

  it.each([
    ["an update that leaves its spec", { operation: "UPDATE", oldObject: wrong }],
    [
      "an update of one that is being deleted",
      {
        operation: "UPDATE",
        oldObject: good,
        object: { ...wrong, metadata: { ...wrong.metadata, deletionTimestamp: "2026-01-01T00:00:00Z" } },
      },
    ],
    ["a deletion", { operation: "DELETE", object: null, oldObject: wrong }],
    ["a write of its status", { operation: "UPDATE", oldObject: good, subResource: "status" }],
  ])("always takes %s, of a policy that does not compile", async (_sentence, request) => {
    expect(await answer(buildPolicyReview(wrong, request))).toEqual({ uid: "5ab41d2e", allowed: true });
  });

  it("takes what is hardly meant, with a warning", async () => {
    const { allowed, warnings } = await answer(buildPolicyReview(withWhen("volume.usedRatio <= 0.8")));
    expect({ allowed, warnings }).toEqual({
      allowed: true,
      warnings: ["rule extend-at-80 extends while volume.usedRatio <= 0.8: is the comparison reversed?"],
    });
  });

  it("warns of a class and a selector that match nothing now, until a claim is there", async () => {
    const policy = aVolumePolicy({ selector: { matchLabels: { tier: "cache" } }, storageClassNames: ["no-such"] });
    const labelled = "selector: no claim of namespace shop has these labels now";
    expect((await answer(buildPolicyReview(policy))).warnings).toEqual([
      "storageClassNames: there is no StorageClass no-such now",
      labelled,
    ]);
    await cluster.client.create("test/claim", PERSISTENT_VOLUME_CLAIMS, {
      apiVersion: "v1",
      kind: "PersistentVolumeClaim",
      metadata: { namespace: "shop", name: "data", labels: { tier: "cache" } },
      spec: { accessModes: ["ReadWriteOnce"], resources: { requests: { storage: "1Gi" } } },
    });
    await waitFor("the claim in the cache", async () => {
      const { warnings = [] } = await answer(buildPolicyReview(policy));
      return warnings.includes(labelled) ? undefined : true;
    });
  });

  it("refuses what does not compile in other namespaces while one sends the worst policies, and answers all of them", async () => {
    const worst = JSON.stringify(buildPolicyReview(worstPolicy("team", 0, "over")));
    const agent = new Agent({ keepAlive: true });
    let isEnding = false;
    const floods = Array.from({ length: 20 }, async () => {
      const answers: HttpAnswer[] = [];
      while (!isEnding) answers.push(await post(cluster, leader, worst, { agent }));
      return answers;
    });
    try {
      for (let asked = 0; asked < 5; asked += 1)
        expect(await answer(buildPolicyReview(wrong))).toMatchObject({ allowed: false });
    } finally {
      isEnding = true;
    }
    const answers = (await Promise.all(floods)).flat();
    agent.destroy();
    for (const { status, text } of answers) {
      expect([200, 503]).toContain(status);
      if (status === 200) expect(text.includes('"allowed":false') || UNCHECKED.test(text)).toBe(true);
    }
    expect(await answer(buildPolicyReview(good))).toMatchObject({ allowed: true });
  });

  it("reads an object of 3 MiB", async () => {
    const metadata = { ...wrong.metadata, annotations: { ballast: "x".repeat(3 << 20) } };
    expect(await answer(buildPolicyReview({ ...wrong, metadata }))).toMatchObject({ allowed: false });
  });

  it.each<[string, string, object, number, string]>([
    ["truncated", JSON.stringify(buildPolicyReview(good)).slice(0, 100), {}, 400, "no JSON in 100 characters"],
    ["foreign", JSON.stringify({ kind: "VolumePolicy" }), {}, 400, "no AdmissionReview of admission.k8s.io/v1"],
    ["of no object", JSON.stringify(buildPolicyReview(good, { object: 1 })), {}, 400, "the object is not a policy"],
    ["huge", " ".repeat((4 << 20) + 1), {}, 413, "body is limited to 4Mi"],
    ["of another path", JSON.stringify(buildPolicyReview(good)), { path: "/metrics" }, 404, "/validate-policies"],
  ])("refuses a request with a status and a sentence where it is %s", async (_name, body, call, status, text) => {
    const refused = await post(cluster, leader, body, call);
    expect(refused.status).toBe(status);
    expect(refused.text).toContain(text);
    expect(await answer(buildPolicyReview(good))).toMatchObject({ allowed: true });
  });

  it("has few connections at once of those who are silent, and answers", async () => {
    const { server, started: flooded } = await listeningServer(() => startReplica(cluster, { leads: false }));
    await answer(buildPolicyReview(good), flooded);
    const silent = await openSilent(flooded.port, 700);
    try {
      expect(await answer(buildPolicyReview(good), flooded)).toMatchObject({ allowed: true });
      expect(await connectionsOf(server)).toBeLessThanOrEqual(512);
    } finally {
      for (const socket of silent) socket.destroy();
      await flooded.stop();
    }
  });

  it("tells its requests by what became of the policy", async () => {
    const text = await leader.metrics();
    for (const result of ["Allowed", "Warned", "Refused", "NotAsked", "Failed"])
      expect(text).toMatch(new RegExp(`webhook_duration_seconds_count\\{result="${result}"\\} [1-9]`));
  });
});
