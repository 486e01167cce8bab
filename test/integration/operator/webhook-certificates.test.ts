// The webhook's certificates: made once, renewed without a moment in which the API server trusts none that is shown, and mended. Whoever
// syncs the configuration from Git never fights with the operator about them.
import { X509Certificate } from "node:crypto";
import { afterEach, beforeEach, expect, it } from "@jest/globals";
import { MUTATING_WEBHOOK_CONFIGURATIONS, SECRETS } from "../../../src/contracts/kubernetes/resources.ts";
import { POD_WEBHOOK, POD_WEBHOOK_SECRETS } from "../../../src/contracts/names.ts";
import { CERTIFICATE_TIMES } from "../../../src/platform/process/certificates/decide-certificates.ts";
import { isIssuedBy, readBundle } from "../../../src/platform/process/certificates/key-pair.ts";
import { makeEmptySecrets } from "../../builders/empty-secrets.ts";
import { buildPod, ofClaim } from "../../builders/pod-review.ts";
import { waitFor } from "../../harness/wait-for.ts";
import {
  admit,
  applyConfiguration,
  pairOf,
  type Replica,
  type ReplicaOptions,
  SYSTEM_NAMESPACE,
  startReplica,
  startWebhookCluster,
  trustedAuthorities,
  type WebhookCluster,
} from "./webhook-under-test.ts";

const DAY_MS = 86_400_000;

let cluster: WebhookCluster;
let replicas: Replica[];

beforeEach(async () => {
  [cluster, replicas] = [await startWebhookCluster(), []];
});
afterEach(async () => {
  await Promise.all(replicas.map((replica) => replica.stop()));
  await cluster.stop();
});

async function replica(options: ReplicaOptions & { readonly leads?: boolean } = {}): Promise<Replica> {
  const started = await startReplica(cluster, options);
  replicas.push(started);
  if (options.leads !== false) started.duty.begin();
  return started;
}

/** A pod comes through, with what the configuration trusts right now. */
const answers = (one: Replica) => admit(cluster, one, buildPod([ofClaim("data")]));
const untilAnswers = (one: Replica) => waitFor("an answer over TLS", () => answers(one));
const trusted = (count: number) =>
  waitFor(`${count} CAs in the configuration`, async () => {
    const authorities = readBundle(await trustedAuthorities(cluster.client));
    return authorities.length === count ? authorities : undefined;
  });
const configuration = () => cluster.client.get(MUTATING_WEBHOOK_CONFIGURATIONS, { name: POD_WEBHOOK.configuration });

it("a replica that does not lead makes none, and is ready all the same: the leader may be one without a webhook", async () => {
  await applyConfiguration(cluster.client);
  const follower = await replica({ leads: false });
  expect(follower.notReady()).toContain("are not read yet");
  await waitFor("it to be ready", () => follower.notReady() === undefined || undefined);
  const name = { namespace: SYSTEM_NAMESPACE, name: POD_WEBHOOK_SECRETS.authority };
  expect((await cluster.client.get(SECRETS, name))?.data).toBeUndefined();
  await replica();
  await untilAnswers(follower);
});

it("a replica that is ready shows the certificate that there is", async () => {
  await applyConfiguration(cluster.client);
  await untilAnswers(await replica());
  const another = await replica({ leads: false });
  await waitFor("it to be ready", () => another.notReady() === undefined || undefined, { intervalMs: 1 });
  await answers(another);
});

it("the configuration may come after the certificates; one without our webhook in it is left as it is", async () => {
  const { client } = cluster;
  const one = await replica();
  await pairOf(client, "server");
  await applyConfiguration(client, { name: "somebody.elses.example" });
  await applyConfiguration(client);
  await untilAnswers(one);
});

it("a restart and another leader go on with what there is", async () => {
  await applyConfiguration(cluster.client);
  await untilAnswers(await replica());
  const before = [
    await pairOf(cluster.client, "authority"),
    await pairOf(cluster.client, "server"),
    await configuration(),
  ];
  await replicas.pop()?.stop();
  await untilAnswers(await replica());
  await untilAnswers(await replica());
  expect([
    await pairOf(cluster.client, "authority"),
    await pairOf(cluster.client, "server"),
    await configuration(),
  ]).toEqual(before);
});

it("two that both believe to lead end with one CA, which both serve under", async () => {
  await applyConfiguration(cluster.client);
  const both = await Promise.all([replica(), replica()]);
  const [authority = ""] = await trusted(1);
  for (const one of both) await untilAnswers(one);
  expect(isIssuedBy(new X509Certificate((await pairOf(cluster.client, "server")).certificatePem), authority)).toBe(
    true,
  );
});

it("a new CA is trusted before anything is signed by it, and the old one until nothing of its can be shown", async () => {
  // TLS goes by the real time, so that all of this lies in the past, but for its end.
  const { authorityLifeMs, renewBeforeMs, overlapMs } = CERTIFICATE_TIMES;
  const renewalMs = Date.now() - 4 * DAY_MS;
  await applyConfiguration(cluster.client);
  const leader = await replica({ clock: { nowMs: renewalMs - authorityLifeMs + renewBeforeMs } });
  const follower = await replica({ leads: false });
  const old = await pairOf(cluster.client, "authority");
  const leaf = await pairOf(cluster.client, "server");

  // Up to then leaves come and go under the one CA.
  leader.at(renewalMs - DAY_MS);
  await waitFor("a new leaf", async () => {
    const { certificatePem } = await pairOf(cluster.client, "server");
    return certificatePem === leaf.certificatePem ? undefined : true;
  });
  for (const one of [leader, follower]) await untilAnswers(one);
  const oldLeaf = await pairOf(cluster.client, "server");

  leader.at(renewalMs + DAY_MS);
  const both = await trusted(2);
  expect(both).toContain(old.certificatePem);
  expect((await pairOf(cluster.client, "server")).certificatePem).toBe(oldLeaf.certificatePem);
  for (const one of [leader, follower]) await answers(one);

  leader.at(renewalMs + DAY_MS + overlapMs + DAY_MS / 24);
  const renewed = await waitFor("a leaf of the new CA", async () => {
    const pair = await pairOf(cluster.client, "server");
    return pair.certificatePem === oldLeaf.certificatePem ? undefined : pair;
  });
  expect(isIssuedBy(new X509Certificate(renewed.certificatePem), old.certificatePem)).toBe(false);
  // Whichever of the two leaves a replica shows at this moment, the API server trusts it.
  for (const one of [leader, follower]) await answers(one);
  expect(readBundle(await trustedAuthorities(cluster.client))).toContain(old.certificatePem);

  leader.at(renewalMs + 3 * DAY_MS + overlapMs);
  expect(await trusted(1)).not.toContain(old.certificatePem);
  for (const one of [leader, follower]) await answers(one);
});

it.each(["authority", "server"] as const)(
  "the %s is made anew when its Secret was lost and is applied again",
  async (name) => {
    await applyConfiguration(cluster.client);
    const leader = await replica();
    await untilAnswers(leader);
    const before = await pairOf(cluster.client, name);
    const secret = { namespace: SYSTEM_NAMESPACE, name: POD_WEBHOOK_SECRETS[name] };
    await cluster.client.delete("test/secret", SECRETS, secret);
    await waitFor(
      "the log to say what is missing, and what to do",
      () =>
        JSON.stringify(leader.lines).includes(`no Secret ${SYSTEM_NAMESPACE}/${secret.name}: apply the manifests`) ||
        undefined,
    );
    expect(await cluster.client.get(SECRETS, secret)).toBeUndefined();
    await makeEmptySecrets(cluster.client, SYSTEM_NAMESPACE, [secret.name]);
    await waitFor("a new one", async () => (await pairOf(cluster.client, name)).keyPem !== before.keyPem || undefined);
    await untilAnswers(leader);
  },
);

it("what somebody writes over the CAs is mended, and whoever syncs the rest from Git keeps the rest", async () => {
  await applyConfiguration(cluster.client);
  const leader = await replica();
  await untilAnswers(leader);
  const name = POD_WEBHOOK.configuration;
  const found = await configuration();
  const webhooks = found?.webhooks?.map((one) => ({
    ...one,
    clientConfig: { ...one.clientConfig, caBundle: "Zm9yZ2Vk" },
  }));
  await cluster.client.mergePatch("test/forge", MUTATING_WEBHOOK_CONFIGURATIONS, { name }, { webhooks });
  await untilAnswers(leader);

  const before = await configuration();
  await applyConfiguration(cluster.client); // as a sync does again and again
  expect(await configuration()).toEqual(before);
  await applyConfiguration(cluster.client, { timeoutSeconds: 5 });
  expect((await configuration())?.webhooks).toMatchObject([{ timeoutSeconds: 5, failurePolicy: "Ignore" }]);
  await answers(leader);
});

it("a namespace of 63 characters has certificates, too", async () => {
  const { makeAuthority, issueLeaf } = await import("../../../src/platform/process/certificates/issue-certificate.ts");
  const { leafProblem } = await import("../../../src/platform/process/certificates/key-pair.ts");
  const nowMs = Date.now();
  const authority = await makeAuthority("ca", nowMs, CERTIFICATE_TIMES);
  const profile = { commonName: `${POD_WEBHOOK.service}.${"n".repeat(63)}.svc`, usage: "server" } as const;
  const leaf = await issueLeaf(authority, profile, nowMs, CERTIFICATE_TIMES);
  expect(leafProblem(leaf, [authority.certificatePem], profile, nowMs)).toBeUndefined();
});
