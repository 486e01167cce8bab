// The pod webhook of one replica: its server, its certificates, and what only the leader does for it. Every replica serves; the leader
// makes the certificates, and looks for pods that were missed. Whom to trust the API server learns from the ca-publisher.
import { setTimeout } from "node:timers/promises";
import {
  EXTENDER_CERTIFICATE_NAME,
  EXTENDER_SECRETS,
  POD_WEBHOOK,
  POD_WEBHOOK_SECRETS,
  SCHEDULER_CERTIFICATE_NAME,
  TIDEMARK_SCHEDULER,
} from "../../api/placement.ts";
import { createReflector } from "../../kube/cache/reflector.ts";
import { reflectorSet } from "../../kube/cache/reflector-set.ts";
import type { KubeClient } from "../../kube/client/client.ts";
import type { EventRecorder } from "../../kube/events/events.ts";
import { MUTATING_WEBHOOK_CONFIGURATIONS, PODS, type Secret } from "../../kube/resources.ts";
import { type CertificateKeeper, createCertificateKeeper } from "../../process/certificates/certificate-keeper.ts";
import type { Leaf } from "../../process/certificates/certificate-round.ts";
import { CERTIFICATE_TIMES } from "../../process/certificates/certificate-times.ts";
import { showSecret } from "../../process/certificates/shown-pair.ts";
import type { Clock } from "../../process/clock.ts";
import type { Logger } from "../../process/log.ts";
import type { ClaimCaches } from "../claim/claim-caches.ts";
import type { OperatorConfig, PodWebhookSettings } from "../config.ts";
import type { Duty } from "../led-queue.ts";
import type { OperatorMetrics } from "../metrics.ts";
import { admitPod, READ_LIMIT_MS } from "./admit-pod.ts";
import { limitReads } from "./limited-reads.ts";
import { claimKeysOf, createMissedPods } from "./missed-pods.ts";
import { registerPodWebhook } from "./webhook-metrics.ts";
import { createWebhookServer } from "./webhook-server.ts";

export interface PodWebhookOptions {
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
  /** Goes on for a moment, until nobody is sent here any more. */
  stop(): Promise<void>;
}

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
    answer: (body) => admitPod({ sources, synced: caches.synced, asking, ownNamespace, clock, answered, log }, body),
    refused: (durationMs) => answered("Refused", durationMs),
    clock,
    log,
  });
  let leading = false;
  let lookedForCertificate = false;
  const keeper = createWebhookKeeper(
    options,
    () => leading,
    (secret) => {
      if (secret.metadata.name === POD_WEBHOOK_SECRETS.server) showSecret(secret, server.replace, log);
    },
  );
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
      await setTimeout(options.drainMs);
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

/** Of its authority and of all that it signs. */
function createWebhookKeeper(
  { config, client, events, clock, log }: PodWebhookOptions,
  isLeader: () => boolean,
  changed: (secret: Secret) => void,
): CertificateKeeper {
  return createCertificateKeeper({
    client,
    events,
    namespace: config.leaseNamespace,
    authoritySecretName: POD_WEBHOOK_SECRETS.authority,
    leaves: placementLeaves(config.leaseNamespace),
    times: CERTIFICATE_TIMES,
    isLeader,
    changed,
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
