// The policy webhook of one replica: its server, its threads and its certificates. Every replica serves; the leader makes the certificates.
// Whom to trust the API server learns from a ca-publisher.
import { Histogram, type Registry } from "prom-client";
import { POLICY_WEBHOOK, POLICY_WEBHOOK_SECRETS } from "../../contracts/names.ts";
import { NO_LABELS } from "../../contracts/schema/label-selector.ts";
import { createWebhookServer, type WebhookServer } from "../../platform/kube/admission/webhook-server.ts";
import type { KubeClient } from "../../platform/kube/client/client.ts";
import type { EventRecorder } from "../../platform/kube/events/events.ts";
import {
  type CertificateKeeper,
  createCertificateKeeper,
} from "../../platform/process/certificates/certificate-keeper.ts";
import { CERTIFICATE_TIMES } from "../../platform/process/certificates/decide-certificates.ts";
import { showSecret } from "../../platform/process/certificates/shown-pair.ts";
import type { Clock } from "../../platform/process/clock.ts";
import type { Logger } from "../../platform/process/log.ts";
import type { PolicyEngineConfig } from "../config.ts";
import type { Caches } from "../gather/caches.ts";
import type { PolicySelection } from "../policies/compiled-policy.ts";
import { admitPolicy, type ReviewResult } from "./admit-policy.ts";
import { createReviewThread } from "./review-thread.ts";
import { selectionWarnings } from "./selected-now.ts";
import { createTurns } from "./turns.ts";

interface PolicyWebhookOptions {
  readonly config: Pick<PolicyEngineConfig, "httpHost" | "leaseNamespace" | "reviewWorkerPath">;
  /** 0 picks a free one. */
  readonly port: number;
  readonly client: KubeClient;
  readonly events: EventRecorder;
  /** Synced ones. */
  readonly caches: Pick<Caches, "claims" | "namespaces" | "storageClasses">;
  readonly leadership: { isLeader(): boolean };
  readonly registry: Registry;
  readonly clock: Clock;
  readonly log: Logger;
}

export interface PolicyWebhook {
  /** Resolves with the port. Handshakes fail until the leader has made the certificates. */
  start(): Promise<number>;
  /** This replica leads now. */
  leading(): void;
  stop(): Promise<void>;
}

/** What waits for its turn to be read: each is a body of up to 4 MiB. */
const READER_LIMITS = { waiting: 16, waitingInScope: 16 };
/** A turn of a policy is some milliseconds, and a second at most: who has so many waiting hears that they were not checked. */
const CHECKER_LIMITS = { waiting: 256, waitingInScope: 16 };

export function createPolicyWebhook(options: PolicyWebhookOptions): PolicyWebhook {
  const { config, port, caches, registry, clock, log } = options;
  const { answered } = registerPolicyWebhook(registry);
  const [reader, checker] = [
    createReviewThread(config.reviewWorkerPath, false, log),
    createReviewThread(config.reviewWorkerPath, true, log),
  ];
  const admission = {
    reader,
    readerTurns: createTurns(READER_LIMITS, clock),
    checker,
    checkerTurns: createTurns(CHECKER_LIMITS, clock),
    selectedNow: (selection: PolicySelection) => selectionWarnings(selection, selectable(caches, selection)),
    clock,
    answered,
  };
  const server = createWebhookServer({
    host: config.httpHost,
    port,
    path: POLICY_WEBHOOK.path,
    answer: (body) => admitPolicy(admission, body),
    refused: (durationMs) => answered("Failed", durationMs),
    clock,
    log,
  });
  const keeper = createWebhookKeeper(options, server.replace);
  return {
    start: async () => {
      const listening = await server.listen();
      keeper.start();
      return listening;
    },
    leading: keeper.wake,
    stop: async () => {
      await keeper.stop();
      await server.close();
      await Promise.all([reader.stop(), checker.stop()]);
    },
  };
}

/** Of a namespace, or of the cluster: a selector is compared with no more, since that takes the time of decisions. */
const SELECTABLE_LIMIT = 1000;

function selectable(
  { claims, namespaces, storageClasses }: PolicyWebhookOptions["caches"],
  selection: PolicySelection,
) {
  const { namespace } = selection;
  const labels = <T extends { metadata: { labels?: Record<string, string> | undefined } }>(objects: readonly T[]) =>
    objects.map(({ metadata }) => metadata.labels ?? NO_LABELS);
  const few = <T>(size: number, list: () => T): T | undefined => (size > SELECTABLE_LIMIT ? undefined : list());
  const ofNamespace = namespace === undefined ? undefined : claims.store.byIndex("namespace", namespace);
  return {
    storageClassNames: storageClasses.store.list().map(({ metadata }) => metadata.name),
    claimLabels:
      ofNamespace === undefined
        ? few(claims.store.size, () => labels(claims.store.list()))
        : few(ofNamespace.length, () => labels(ofNamespace)),
    namespaceLabels: few(namespaces.store.size, () => labels(namespaces.store.list())),
  };
}

/** Of its authority and of the one certificate that it signs. */
function createWebhookKeeper(
  { config, client, events, leadership, clock, log }: PolicyWebhookOptions,
  show: WebhookServer["replace"],
): CertificateKeeper {
  const namespace = config.leaseNamespace;
  const commonName = `${POLICY_WEBHOOK.service}.${namespace}.svc`;
  return createCertificateKeeper({
    client,
    events,
    namespace,
    authoritySecretName: POLICY_WEBHOOK_SECRETS.authority,
    leaves: [{ secretName: POLICY_WEBHOOK_SECRETS.server, commonName, usage: "server" }],
    times: CERTIFICATE_TIMES,
    isLeader: () => leadership.isLeader(),
    changed: (secret) => {
      if (secret.metadata.name === POLICY_WEBHOOK_SECRETS.server) showSecret(secret, show, log);
    },
    nowMs: clock.nowMs,
    log,
  });
}

const DURATION_BUCKETS_SECONDS = [0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5];

export function registerPolicyWebhook(registry: Registry): {
  answered(result: ReviewResult, durationMs: number): void;
} {
  const answers = new Histogram({
    name: "tidemark_policy_engine_webhook_duration_seconds",
    help: "Requests to the policy webhook, by what became of the policy.",
    labelNames: ["result"],
    buckets: DURATION_BUCKETS_SECONDS,
    registers: [registry],
  });
  return { answered: (result, durationMs) => answers.observe({ result }, durationMs / 1000) };
}
