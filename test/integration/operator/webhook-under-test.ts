// Pod webhooks in this process, as replicas of an operator: real TLS over loopback, real certificates in the Secrets of an API
// server. The test plays that server's webhook client: it trusts what stands in the configuration, and nothing else.
import { type Agent, request } from "node:https";
import { createCaPublisher } from "../../../src/ca-publisher/publisher.ts";
import {
  MUTATING_WEBHOOK_CONFIGURATIONS,
  NAMESPACES,
  PERSISTENT_VOLUME_CLAIMS,
  PERSISTENT_VOLUMES,
  type Pod,
  SECRETS,
  STORAGE_CLASSES,
} from "../../../src/contracts/kubernetes/resources.ts";
import { EXTENDER_SECRETS, POD_WEBHOOK, POD_WEBHOOK_SECRETS } from "../../../src/contracts/names.ts";
import { createPodWebhook } from "../../../src/operator/webhook/pod-webhook.ts";
import { createReflector, reflectorSet } from "../../../src/platform/kube/cache/reflector.ts";
import { type ConnectedKubeClient, createKubeClient } from "../../../src/platform/kube/client/http-client.ts";
import { createEventRecorder } from "../../../src/platform/kube/events/events.ts";
import { hasPair, type StoredPair, storedPair } from "../../../src/platform/process/certificates/key-pair.ts";
import { directEffects } from "../../../src/platform/process/effects/effects.ts";
import { createMetricsRegistry } from "../../../src/platform/process/metrics/metrics-server.ts";
import { makeEmptySecrets } from "../../builders/empty-secrets.ts";
import { buildReview } from "../../builders/pod-review.ts";
import { createRecordingLog } from "../../fakes/recording-log.ts";
import { startApiUnderTest } from "../../harness/api-under-test.ts";
import { waitFor } from "../../harness/wait-for.ts";

export const SYSTEM_NAMESPACE = "tidemark-system";
const SERVER_NAME = `${POD_WEBHOOK.service}.${SYSTEM_NAMESPACE}.svc`;

/** With a ca-publisher in this process, unless the test has one elsewhere. */
export async function startWebhookCluster({ publishes = true } = {}) {
  const { log } = createRecordingLog();
  const controlPlane = await startApiUnderTest({ port: 0, log });
  const client = createKubeClient({ connection: { server: controlPlane.url }, effects: directEffects, log });
  for (const name of [SYSTEM_NAMESPACE, "shop", "office"])
    await client.create("test/namespace", NAMESPACES, {
      apiVersion: "v1",
      kind: "Namespace",
      metadata: { name, labels: { "kubernetes.io/metadata.name": name } },
    });
  await makeEmptySecrets(client, SYSTEM_NAMESPACE, [
    ...Object.values(POD_WEBHOOK_SECRETS),
    ...Object.values(EXTENDER_SECRETS),
  ]);
  const publisher = createCaPublisher(client, SYSTEM_NAMESPACE, "pods", log);
  if (publishes) publisher.start();
  return {
    url: controlPlane.url,
    client,
    stop: async () => {
      await publisher.stop();
      await client.close();
      await controlPlane.close();
    },
  };
}

export type WebhookCluster = Awaited<ReturnType<typeof startWebhookCluster>>;

/** As kustomize/components/placement has it, as far as anything here looks at it. */
export async function applyConfiguration(client: ConnectedKubeClient, fields: object = {}): Promise<void> {
  const service = { name: POD_WEBHOOK.service, namespace: SYSTEM_NAMESPACE, path: POD_WEBHOOK.path };
  const rules = [{ apiGroups: [""], apiVersions: ["v1"], resources: ["pods"], operations: ["CREATE"] }];
  const webhook = { sideEffects: "None", failurePolicy: "Ignore", admissionReviewVersions: ["v1"], rules };
  await client.apply(
    "test/configuration",
    MUTATING_WEBHOOK_CONFIGURATIONS,
    {
      apiVersion: "admissionregistration.k8s.io/v1",
      kind: "MutatingWebhookConfiguration",
      metadata: { name: POD_WEBHOOK.configuration },
      webhooks: [{ name: POD_WEBHOOK.webhook, clientConfig: { service }, ...webhook, ...fields }],
    },
    { fieldManager: "git" },
  );
}

/** What the API server trusts: PEM, or "" when nobody has told it yet. */
export async function trustedAuthorities(client: ConnectedKubeClient): Promise<string> {
  const found = await client.get(MUTATING_WEBHOOK_CONFIGURATIONS, { name: POD_WEBHOOK.configuration });
  const webhook = found?.webhooks?.find(({ name }) => name === POD_WEBHOOK.webhook);
  return Buffer.from(webhook?.clientConfig?.caBundle ?? "", "base64").toString();
}

export async function pairOf(client: ConnectedKubeClient, name: keyof typeof POD_WEBHOOK_SECRETS): Promise<StoredPair> {
  return waitFor(`the Secret of the ${name}`, async () => {
    const secret = await client.get(SECRETS, { namespace: SYSTEM_NAMESPACE, name: POD_WEBHOOK_SECRETS[name] });
    return secret !== undefined && hasPair(secret) ? storedPair(secret) : undefined;
  });
}

export interface ReplicaOptions {
  readonly clock?: { nowMs: number };
  readonly schedulersWithExtender?: readonly string[];
}

/** How many claims the API server was asked for at the same time, at most. */
function countReads(client: ConnectedKubeClient) {
  let [underWay, most] = [0, 0];
  const get: ConnectedKubeClient["get"] = async (resource, name) => {
    const isClaim = resource.kind === PERSISTENT_VOLUME_CLAIMS.kind;
    if (isClaim) underWay += 1;
    most = Math.max(most, underWay);
    try {
      return await client.get(resource, name);
    } finally {
      if (isClaim) underWay -= 1;
    }
  };
  return { counted: { ...client, get }, mostReads: () => most };
}

/** One replica; it does not lead before it is told. */
export async function startReplica(cluster: WebhookCluster, options: ReplicaOptions = {}) {
  const { clock = { nowMs: Date.now() }, schedulersWithExtender = [] } = options;
  const { log, lines } = createRecordingLog();
  const client = createKubeClient({ connection: { server: cluster.url }, effects: directEffects, log });
  const { counted, mostReads } = countReads(client);
  const reflectors = {
    claims: createReflector({ client, resource: PERSISTENT_VOLUME_CLAIMS, log }),
    storageClasses: createReflector({ client, resource: STORAGE_CLASSES, log }),
    namespaces: createReflector({ client, resource: NAMESPACES, log }),
    persistentVolumes: createReflector({ client, resource: PERSISTENT_VOLUMES, log }),
  };
  const all = reflectorSet(Object.values(reflectors));
  const nowMs = (): number => clock.nowMs;
  const events = createEventRecorder({ client, component: "tidemark-operator", nowMs: Date.now, log });
  const registry = createMetricsRegistry();
  const webhook = createPodWebhook({
    config: { httpHost: "127.0.0.1", leaseNamespace: SYSTEM_NAMESPACE, port: 0, schedulersWithExtender },
    client: counted,
    caches: { ...reflectors, ...all },
    events,
    metrics: { registry },
    drainMs: 0,
    clock: { nowMs, monotonicMs: () => performance.now() },
    log,
  });
  all.start();
  const port = await webhook.start();
  return {
    ...webhook,
    port,
    lines,
    synced: all.synced,
    metrics: () => registry.metrics(),
    mostReads,
    /** Time has come to this moment, and the leader looks at its certificates. */
    at: (atMs: number) => {
      clock.nowMs = atMs;
      webhook.duty.begin();
    },
    stop: async () => {
      await webhook.duty.end();
      await webhook.stop();
      await events.flush();
      await all.stop();
      await client.close();
    },
  };
}

export type Replica = Awaited<ReturnType<typeof startReplica>>;

export interface HttpAnswer {
  readonly status: number;
  readonly text: string;
}

export interface Call {
  readonly port: number;
  /** PEM: the CAs that are trusted. */
  readonly ca: string;
  readonly path?: string;
  readonly method?: string;
  readonly headers?: Record<string, string>;
  readonly serverName?: string;
  /** Keeps connections, as the API server does; without it each request has its own. */
  readonly agent?: Agent;
}

/** One request. Rejects where the certificate is not good for the webhook's name. */
export function send({ port, ca, ...call }: Call, body: string | Buffer): Promise<HttpAnswer> {
  const { path = POD_WEBHOOK.path, method = "POST", serverName = SERVER_NAME, agent = false } = call;
  const headers = { "content-type": "application/json", ...call.headers };
  return new Promise((resolve, reject) => {
    const asked = request(
      { host: "127.0.0.1", port, path, method, headers, ca, servername: serverName, agent },
      (response) => {
        let text = "";
        response.setEncoding("utf8").on("data", (part: string) => {
          text += part;
        });
        response.on("end", () => resolve({ status: response.statusCode ?? 0, text }));
        response.on("error", reject);
      },
    );
    asked.on("error", reject);
    asked.end(body);
  });
}

export interface AdmissionAnswer {
  readonly uid: string;
  readonly allowed: boolean;
  readonly patch: readonly { path: string; value: unknown }[];
  readonly warnings: readonly string[];
}

/** Sends the pod as the API server would, trusting what the configuration says right now. */
export async function admit(
  cluster: WebhookCluster,
  { port }: Pick<Replica, "port">,
  pod: Pod,
): Promise<AdmissionAnswer> {
  const ca = await trustedAuthorities(cluster.client);
  const namespace = pod.metadata.namespace ?? "";
  const { status, text } = await send({ port, ca }, JSON.stringify(buildReview(pod, { namespace })));
  if (status !== 200) throw new Error(`${status}: ${text}`);
  const { response } = JSON.parse(text) as {
    response: { uid: string; allowed: boolean; patch?: string; warnings?: string[] };
  };
  const { uid, allowed, patch = "", warnings = [] } = response;
  const steps = patch === "" ? [] : (JSON.parse(Buffer.from(patch, "base64").toString()) as AdmissionAnswer["patch"]);
  return { uid, allowed, patch: steps, warnings };
}
