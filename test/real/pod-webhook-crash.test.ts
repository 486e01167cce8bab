// The operator dies by SIGKILL at each write that makes or mends the pod webhook's certificates, and the ca-publisher at its own: the next
// one goes on, and in the end the API server trusts what the webhook shows.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "@jest/globals";
import { freePort } from "../../demo/show/run/free-port.ts";
import { bootstrap } from "../../demo/stand-ins/bootstrap.ts";
import { MUTATING_WEBHOOK_CONFIGURATIONS, SECRETS } from "../../src/contracts/kubernetes/resources.ts";
import { POD_WEBHOOK, POD_WEBHOOK_SECRETS } from "../../src/contracts/names.ts";
import { makeEmptySecrets } from "../builders/empty-secrets.ts";
import { buildPod, ofClaim } from "../builders/pod-review.ts";
import { type CrashingOperator, createCrashingOperator, liveWithEachDeath } from "../harness/crashing-operator.ts";
import { noteDeaths } from "../harness/death-notes.ts";
import { waitFor } from "../harness/wait-for.ts";
import {
  admit,
  applyConfiguration,
  pairOf,
  type Replica,
  SYSTEM_NAMESPACE,
  startReplica,
  startWebhookCluster,
  type WebhookCluster,
} from "../integration/operator/webhook-under-test.ts";

const MATRIX_LIMIT_MS = 2_400_000;
/** The operator dies several times on the way, and a busy machine takes its time to start it again. */
const ANSWER_LIMIT_MS = 300_000;
const OWN_POINTS = ["certificates/update-secret"];

let directory: string;
let cluster: WebhookCluster;
let operator: CrashingOperator;
let port: number;

async function openWorld(): Promise<CrashingOperator> {
  directory = mkdtempSync(join(tmpdir(), "tidemark-webhook-crash-"));
  cluster = await startWebhookCluster();
  port = await freePort();
  const crdDirectory = "kustomize/foundation/crds";
  await bootstrap(cluster.client, { crdDirectory, nodeName: "node-1", initialSize: "1Gi", fsType: "btrfs" });
  operator = await createCrashingOperator({
    directory,
    serverUrl: cluster.url,
    client: cluster.client,
    args: ["--csi-socket", join(directory, "local.sock"), "--pod-webhook", "--pod-webhook-port", `${port}`],
  });
  return operator;
}
async function closeWorld(): Promise<void> {
  await operator?.stop();
  await cluster?.stop();
  rmSync(directory, { recursive: true, force: true });
}
async function renewWorld(): Promise<CrashingOperator> {
  await closeWorld();
  return openWorld();
}
beforeAll(async () => void (await openWorld()));
afterAll(closeWorld, 120_000);

const secretName = (name: keyof typeof POD_WEBHOOK_SECRETS) => ({
  namespace: SYSTEM_NAMESPACE,
  name: POD_WEBHOOK_SECRETS[name],
});
const untilAnswers = () =>
  waitFor("an answer over TLS", () => admit(cluster, { port }, buildPod([ofClaim("data")])), {
    intervalMs: 100,
    limitMs: ANSWER_LIMIT_MS,
  });

/** All is lost, and is applied again; then the certificate is spoilt, and mended. */
async function live(): Promise<void> {
  const { client } = cluster;
  await client.delete("test/configuration", MUTATING_WEBHOOK_CONFIGURATIONS, { name: POD_WEBHOOK.configuration });
  for (const name of ["authority", "server"] as const) await client.delete("test/secret", SECRETS, secretName(name));
  await makeEmptySecrets(client, SYSTEM_NAMESPACE, Object.values(POD_WEBHOOK_SECRETS));
  await applyConfiguration(client);
  await untilAnswers();
  const spoilt = Buffer.from("no certificate").toString("base64");
  await client.mergePatch("test/spoil", SECRETS, secretName("server"), { data: { "tls.crt": spoilt } });
  await waitFor(
    "the certificate to be mended",
    async () => (await pairOf(client, "server")).certificatePem.includes("BEGIN CERTIFICATE") || undefined,
    { limitMs: ANSWER_LIMIT_MS },
  );
  await untilAnswers();
}

it(
  "the webhook is trusted in the end, wherever the operator dies on the way",
  async () => {
    const lived = await liveWithEachDeath("pod-webhook-crash", operator, live, renewWorld);
    noteDeaths("pod-webhook-crash", lived);
    const { points, failures } = lived;
    // Before and after the first Secret, which is the CA's; what follows the certificate's is the configuration.
    expect(points).toEqual(
      expect.arrayContaining(OWN_POINTS.flatMap((point) => [`${point}/before`, `${point}/after`])),
    );
    expect(failures).toEqual([]);
  },
  MATRIX_LIMIT_MS,
);

it(
  "the webhook is trusted in the end, wherever the ca-publisher dies on the way",
  async () => {
    await closeWorld();
    let leader: Replica | undefined;
    const open = async (): Promise<CrashingOperator> => {
      directory = mkdtempSync(join(tmpdir(), "tidemark-ca-publisher-crash-"));
      cluster = await startWebhookCluster({ publishes: false });
      leader = await startReplica(cluster);
      leader.duty.begin();
      port = leader.port;
      operator = await createCrashingOperator(
        { directory, serverUrl: cluster.url, client: cluster.client, args: [] },
        "ca-publisher",
      );
      return operator;
    };
    const publish = async (): Promise<void> => {
      const name = POD_WEBHOOK.configuration;
      await cluster.client.delete("test/configuration", MUTATING_WEBHOOK_CONFIGURATIONS, { name });
      await applyConfiguration(cluster.client);
      await untilAnswers();
    };
    const lived = await liveWithEachDeath("ca-publisher-crash", await open(), publish, async () => {
      await leader?.stop();
      await closeWorld();
      return open();
    });
    await leader?.stop();
    noteDeaths("ca-publisher-crash", lived);
    expect(lived.points).toEqual(["ca-publisher/publish/before", "ca-publisher/publish/after"]);
    expect(lived.failures).toEqual([]);
  },
  MATRIX_LIMIT_MS,
);
