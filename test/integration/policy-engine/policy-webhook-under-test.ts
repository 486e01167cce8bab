// Policy webhooks in this process, as replicas of a policy-engine: real TLS over loopback, real threads, real certificates in the Secrets of
// an API server. The test plays that server's webhook client: it trusts what stands in the configuration, and nothing else.
import { dirname, join } from "node:path";
import { createCaPublisher } from "../../../src/ca-publisher/publisher.ts";
import { NAMESPACES, VALIDATING_WEBHOOK_CONFIGURATIONS } from "../../../src/contracts/kubernetes/resources.ts";
import { POLICY_WEBHOOK, POLICY_WEBHOOK_SECRETS } from "../../../src/contracts/names.ts";
import { type ConnectedKubeClient, createKubeClient } from "../../../src/platform/kube/client/http-client.ts";
import { createEventRecorder } from "../../../src/platform/kube/events/events.ts";
import { systemClock } from "../../../src/platform/process/clock.ts";
import { directEffects } from "../../../src/platform/process/effects/effects.ts";
import { createMetricsRegistry } from "../../../src/platform/process/metrics/metrics-server.ts";
import { createPolicyWebhook } from "../../../src/policy-engine/admission/policy-webhook.ts";
import { createCaches } from "../../../src/policy-engine/gather/caches.ts";
import { makeEmptySecrets } from "../../builders/empty-secrets.ts";
import { createRecordingLog } from "../../fakes/recording-log.ts";
import { BUNDLE_PATH } from "../../harness/bundle-process.ts";
import { type Call, type HttpAnswer, send } from "../operator/webhook-under-test.ts";
import { type Cluster, startCluster } from "./engine-under-test.ts";

export const SYSTEM_NAMESPACE = "tidemark-system";

/** With a ca-publisher in this process. */
export async function startPolicyWebhookCluster() {
  const cluster = await startCluster();
  const { log } = createRecordingLog();
  for (const name of ["shop", "team"])
    await cluster.client.create("test/namespace", NAMESPACES, {
      apiVersion: "v1",
      kind: "Namespace",
      metadata: { name },
    });
  await makeEmptySecrets(cluster.client, SYSTEM_NAMESPACE, Object.values(POLICY_WEBHOOK_SECRETS));
  const publisher = createCaPublisher(cluster.client, SYSTEM_NAMESPACE, "policies", log);
  publisher.start();
  await applyConfiguration(cluster.client);
  return {
    ...cluster,
    stop: async () => {
      await publisher.stop();
      await cluster.stop();
    },
  };
}

/** As kustomize/components/policy-admission has it, as far as anything here looks at it. */
async function applyConfiguration(client: ConnectedKubeClient): Promise<void> {
  const service = { name: POLICY_WEBHOOK.service, namespace: SYSTEM_NAMESPACE, path: POLICY_WEBHOOK.path };
  const webhook = { sideEffects: "None", failurePolicy: "Ignore", admissionReviewVersions: ["v1"] } as const;
  await client.apply(
    "test/configuration",
    VALIDATING_WEBHOOK_CONFIGURATIONS,
    {
      apiVersion: "admissionregistration.k8s.io/v1",
      kind: "ValidatingWebhookConfiguration",
      metadata: { name: POLICY_WEBHOOK.configuration },
      webhooks: [{ name: POLICY_WEBHOOK.webhook, clientConfig: { service }, ...webhook }],
    },
    { fieldManager: "git" },
  );
}

/** PEM, or "" before the ca-publisher has written it. */
async function trustedAuthorities(client: ConnectedKubeClient): Promise<string> {
  const found = await client.get(VALIDATING_WEBHOOK_CONFIGURATIONS, { name: POLICY_WEBHOOK.configuration });
  const [webhook] = found?.webhooks ?? [];
  return Buffer.from(webhook?.clientConfig?.caBundle ?? "", "base64").toString();
}

export async function startReplica(cluster: Cluster, { leads }: { readonly leads: boolean }) {
  const { log, lines } = createRecordingLog();
  const client = createKubeClient({ connection: { server: cluster.url }, effects: directEffects, log });
  const events = createEventRecorder({ client, component: "tidemark-policy-engine", nowMs: Date.now, log });
  const caches = createCaches(client, log);
  caches.start();
  await caches.synced;
  const registry = createMetricsRegistry();
  const webhook = createPolicyWebhook({
    config: {
      httpHost: "127.0.0.1",
      leaseNamespace: SYSTEM_NAMESPACE,
      reviewWorkerPath: join(dirname(BUNDLE_PATH), "review-worker.mjs"),
    },
    port: 0,
    client,
    events,
    caches,
    leadership: { isLeader: () => leads },
    registry,
    clock: systemClock,
    log,
  });
  const port = await webhook.start();
  return {
    port,
    lines,
    caches,
    metrics: () => registry.metrics(),
    stop: async () => {
      await webhook.stop();
      await events.flush();
      await caches.stop();
      await client.close();
    },
  };
}

export type Replica = Awaited<ReturnType<typeof startReplica>>;

/** As the API server would, trusting what the configuration says right now. */
export async function post(
  cluster: Cluster,
  { port }: Pick<Replica, "port">,
  body: string | Buffer,
  call: Partial<Call> = {},
): Promise<HttpAnswer> {
  const ca = await trustedAuthorities(cluster.client);
  const serverName = `${POLICY_WEBHOOK.service}.${SYSTEM_NAMESPACE}.svc`;
  return send({ port, ca, serverName, path: POLICY_WEBHOOK.path, ...call }, body);
}

export interface PolicyAnswer {
  readonly uid: string;
  readonly allowed: boolean;
  readonly status?: { readonly code: number; readonly reason: string; readonly message: string };
  readonly warnings?: readonly string[];
}

export async function review(
  cluster: Cluster,
  replica: Pick<Replica, "port">,
  asked: object,
  call: Partial<Call> = {},
): Promise<PolicyAnswer> {
  const { status, text } = await post(cluster, replica, JSON.stringify(asked), call);
  if (status !== 200) throw new Error(`${status}: ${text}`);
  return (JSON.parse(text) as { response: PolicyAnswer }).response;
}
