// The pod webhook of one replica: its server, its certificates, and what only the leader does for it. Every replica serves; the leader
// makes the certificates, and looks for pods that were missed. Whom to trust the API server learns from the ca-publisher. One pod's
// admission is: read, gather its claims, decide, answer. It never keeps a pod from being made: what cannot be found out in time leaves
// the pod as it is, and the pod's creator gets a warning.
import { Gauge, Histogram, type Registry } from "prom-client";
import { MUTATING_WEBHOOK_CONFIGURATIONS, PODS } from "../../contracts/kubernetes/resources.ts";
import {
  EXTENDER_CERTIFICATE_NAME,
  EXTENDER_SECRETS,
  POD_WEBHOOK,
  POD_WEBHOOK_SECRETS,
  SCHEDULER_CERTIFICATE_NAME,
  TIDEMARK_SCHEDULER,
} from "../../contracts/names.ts";
import { createWebhookServer, type WebhookServer } from "../../platform/kube/admission/webhook-server.ts";
import { createReflector, reflectorSet } from "../../platform/kube/cache/reflector.ts";
import type { KubeClient } from "../../platform/kube/client/client.ts";
import type { EventRecorder } from "../../platform/kube/events/events.ts";
import { withTimeLimit } from "../../platform/process/async/limited-wait.ts";
import { pause } from "../../platform/process/async/pause.ts";
import {
  type CertificateKeeper,
  createCertificateKeeper,
  type Leaf,
} from "../../platform/process/certificates/certificate-keeper.ts";
import { CERTIFICATE_TIMES } from "../../platform/process/certificates/decide-certificates.ts";
import { showSecret } from "../../platform/process/certificates/shown-pair.ts";
import type { Clock } from "../../platform/process/clock.ts";
import type { Logger } from "../../platform/process/log.ts";
import type { ClaimCaches } from "../claim/claim-caches.ts";
import type { OperatorConfig, PodWebhookSettings } from "../config.ts";
import type { Duty } from "../led-queue.ts";
import type { OperatorMetrics } from "../metrics.ts";
import { answerOf, type PodReview, readReview } from "./admission-review.ts";
import { decidePlacement, type Placement, type PlacementResult } from "./decide-placement.ts";
import { claimKeysOf, createMissedPods } from "./missed-pods.ts";
import { type ClaimSources, claimsOfPod, limitReads } from "./pod-claims.ts";

interface PodWebhookOptions {
  readonly config: Pick<OperatorConfig, "httpHost" | "leaseNamespace"> & PodWebhookSettings;
  readonly client: KubeClient;
  readonly caches: Pick<ClaimCaches, "claims" | "storageClasses" | "namespaces" | "persistentVolumes"> & {
    readonly synced: Promise<void>;
  };
  readonly events: EventRecorder;
  readonly metrics: Pick<OperatorMetrics, "registry">;
  readonly clock: Clock;
  /** How long a Service may still lead here once this replica is to stop. */
  readonly drainMs: number;
  readonly log: Logger;
}

export interface PodWebhook {
  /** What this replica does while it leads. */
  readonly duty: Duty;
  /** Resolves with the port. Handshakes fail until the leader has made the certificates. */
  start(): Promise<number>;
  /**
   * Undefined when it shows the certificate that there is, else what it waits for. Where there is none it does not wait: who leads may
   * be a replica that has no webhook yet and goes only once this one is ready.
   */
  notReady(): string | undefined;
  /** Goes on for a moment, until the API server no longer sends requests here. */
  stop(): Promise<void>;
}

/** Well under the timeoutSeconds of the webhook's configuration. */
export const READ_LIMIT_MS = 2000;
/** Half of the connections that the operator has for all of its requests, and eight pods with as many claims as are looked for. */
const READ_LIMITS = { underWay: 8, waiting: 2048, turnLimitMs: READ_LIMIT_MS };

export function createPodWebhook(options: PodWebhookOptions): PodWebhook {
  const { config, client, caches, events, metrics, clock, log } = options;
  const ownNamespace = config.leaseNamespace;
  const asking = new Set([TIDEMARK_SCHEDULER, ...config.schedulersWithExtender]);
  const sources = { ...caches, client: limitReads(client, READ_LIMITS, clock) };
  const watched = createWebhookCaches(client, log);
  const synced = Promise.all([caches.synced, watched.synced]).then(() => undefined);
  const missed = createMissedPods(
    { ...caches, ...watched, client, sources, asking, ownNamespace, events },
    synced,
    log,
  );
  const { answered } = registerPodWebhook(metrics.registry, () => missed.count());
  const server = createWebhookServer({
    host: config.httpHost,
    port: config.port,
    path: POD_WEBHOOK.path,
    answer: (body) => {
      const admission = { sources, synced: caches.synced, asking, ownNamespace, clock, answered, log };
      return admitPod(admission, body.toString("utf8"));
    },
    refused: (durationMs) => answered("Refused", durationMs),
    clock,
    log,
  });
  let leading = false;
  let lookedForCertificate = false;
  const keeper = createWebhookKeeper(options, () => leading, server.replace);
  return {
    duty: {
      begin: () => {
        leading = true;
        missed.begin();
        keeper.wake();
      },
      end: async () => {
        leading = false;
        await missed.end();
      },
    },
    start: async () => {
      watched.start();
      const port = await server.listen();
      void keeper.synced.then(() => {
        lookedForCertificate = true;
      });
      keeper.start();
      return port;
    },
    notReady: () =>
      lookedForCertificate ? undefined : "the Secrets of the pod webhook's certificates are not read yet",
    stop: async () => {
      await pause(options.drainMs);
      await keeper.stop();
      await server.close();
      await watched.stop();
    },
  };
}

/** The webhook's server, and both ends of the questions that schedulers ask the extender: one CA signs for the component placement. */
export function placementLeaves(namespace: string): readonly Leaf[] {
  return [
    {
      secretName: POD_WEBHOOK_SECRETS.server,
      commonName: `${POD_WEBHOOK.service}.${namespace}.svc`,
      usage: "server",
    },
    { secretName: EXTENDER_SECRETS.extender, commonName: EXTENDER_CERTIFICATE_NAME, usage: "server" },
    { secretName: EXTENDER_SECRETS.scheduler, commonName: SCHEDULER_CERTIFICATE_NAME, usage: "client" },
  ];
}

/** Of its authority and of all that it signs. `show` gets the server's own pair. */
function createWebhookKeeper(
  { config, client, events, clock, log }: PodWebhookOptions,
  isLeader: () => boolean,
  show: WebhookServer["replace"],
): CertificateKeeper {
  return createCertificateKeeper({
    client,
    events,
    namespace: config.leaseNamespace,
    authoritySecretName: POD_WEBHOOK_SECRETS.authority,
    leaves: placementLeaves(config.leaseNamespace),
    times: CERTIFICATE_TIMES,
    isLeader,
    changed: (secret) => {
      if (secret.metadata.name === POD_WEBHOOK_SECRETS.server) showSecret(secret, show, log);
    },
    nowMs: clock.nowMs,
    log,
  });
}

function createWebhookCaches(client: KubeClient, log: Logger) {
  const configurations = createReflector({
    client,
    resource: MUTATING_WEBHOOK_CONFIGURATIONS,
    log,
    select: { fieldSelector: `metadata.name=${POD_WEBHOOK.configuration}` },
  });
  const pods = createReflector({
    client,
    resource: PODS,
    log,
    select: { fieldSelector: "spec.nodeName=,status.phase=Pending" },
    indexes: { claim: claimKeysOf },
  });
  return { configurations, pods, ...reflectorSet([configurations, pods]) };
}

interface WebhookMetrics {
  answered(result: AdmissionResult, durationMs: number): void;
}

const DURATION_BUCKETS_SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5];

/** `missed` is asked when Prometheus asks. */
export function registerPodWebhook(registry: Registry, missed: () => number): WebhookMetrics {
  const answers = new Histogram({
    name: "tidemark_operator_pod_webhook_duration_seconds",
    help: "Requests to the pod webhook, by what became of the pod.",
    labelNames: ["result"],
    buckets: DURATION_BUCKETS_SECONDS,
    registers: [registry],
  });
  const waiting: Gauge = new Gauge({
    name: "tidemark_operator_pods_webhook_bypassed",
    help: "Pods that wait for a node and were made past the pod webhook; 0 where this replica does not lead.",
    registers: [registry],
    collect: () => waiting.set(missed()),
  });
  return { answered: (result, durationMs) => answers.observe({ result }, durationMs / 1000) };
}

/** "NotPods": another object or operation; "Unread": its claims could not be read; "Refused": no review, or no answer. */
type AdmissionResult = PlacementResult | "NotPods" | "Unread" | "Refused";

export interface Admission {
  readonly sources: ClaimSources;
  /** Of the caches in `sources`. */
  readonly synced: Promise<void>;
  readonly asking: ReadonlySet<string>;
  /** Pods here are the operator's own. */
  readonly ownNamespace: string;
  readonly clock: Pick<Clock, "monotonicMs">;
  readonly answered: (result: AdmissionResult, durationMs: number) => void;
  readonly log: Logger;
}

const UNREAD =
  "the pod's claims could not be read: if one is of a Tidemark class, the pod is placed without a look at its room";

type Answered = Omit<Placement, "result"> & { readonly result: AdmissionResult };

/** Throws ForeignReview for what is not a review. */
export async function admitPod(admission: Admission, body: string): Promise<object> {
  const startedMs = admission.clock.monotonicMs();
  const review = readReview(body);
  const { result, patch, warnings } = await place(admission, review);
  admission.answered(result, admission.clock.monotonicMs() - startedMs);
  return answerOf(review.uid, patch, warnings);
}

async function place(admission: Admission, { namespace, pod }: PodReview): Promise<Answered> {
  const { sources, synced, asking, ownNamespace, log } = admission;
  if (pod === undefined || namespace === ownNamespace) return { result: "NotPods", patch: [], warnings: [] };
  try {
    const reading = synced.then(() => claimsOfPod(sources, namespace, pod.spec.volumes ?? []));
    const claims = await withTimeLimit(reading, READ_LIMIT_MS, (limitMs) => {
      throw new Error(`no answer within ${limitMs} ms`);
    });
    return decidePlacement(pod, claims, asking);
  } catch (err) {
    log.warn({ err, namespace }, "a pod's claims could not be read; it is made as it is");
    return { result: "Unread", patch: [], warnings: [UNREAD] };
  }
}
