// Copies the CAs that have signed a webhook's certificate from its Secret into the webhook's configuration. All else in there belongs
// to those who install it: nothing is made here, and one field is owned, by server-side apply.

import type { Resource } from "../contracts/kubernetes/object.ts";
import {
  MUTATING_WEBHOOK_CONFIGURATIONS,
  type MutatingWebhookConfiguration,
  SECRETS,
  type Secret,
  VALIDATING_WEBHOOK_CONFIGURATIONS,
  type ValidatingWebhookConfiguration,
} from "../contracts/kubernetes/resources.ts";
import {
  FIELD_MANAGERS,
  POD_WEBHOOK,
  POD_WEBHOOK_SECRETS,
  POLICY_WEBHOOK,
  POLICY_WEBHOOK_SECRETS,
} from "../contracts/names.ts";
import { createReflector, type Reflector, reflectorSet } from "../platform/kube/cache/reflector.ts";
import type { KubeClient } from "../platform/kube/client/client.ts";
import { createWorkQueue } from "../platform/kube/queue/work-queue.ts";
import { BACK_OFFS } from "../platform/process/async/back-off.ts";
import { readBundle, storedPair } from "../platform/process/certificates/key-pair.ts";
import type { Logger } from "../platform/process/log.ts";

export interface CaPublisher {
  start(): void;
  stop(): Promise<void>;
}

type WebhookConfiguration = MutatingWebhookConfiguration | ValidatingWebhookConfiguration;

interface PublishedWebhook {
  readonly resource: Resource<WebhookConfiguration>;
  readonly configuration: string;
  readonly webhook: string;
  readonly secretName: string;
}

/** One publisher is for one of them, with an account that may write that one's configuration. */
export const WEBHOOKS = ["pods", "policies"] as const;
export type WebhookName = (typeof WEBHOOKS)[number];

const PUBLISHED: Readonly<Record<WebhookName, PublishedWebhook>> = {
  pods: { resource: MUTATING_WEBHOOK_CONFIGURATIONS, ...POD_WEBHOOK, secretName: POD_WEBHOOK_SECRETS.server },
  policies: {
    resource: VALIDATING_WEBHOOK_CONFIGURATIONS,
    ...POLICY_WEBHOOK,
    secretName: POLICY_WEBHOOK_SECRETS.server,
  },
};

/** `namespace`: of the Secret. */
export function createCaPublisher(client: KubeClient, namespace: string, name: WebhookName, log: Logger): CaPublisher {
  const published = PUBLISHED[name];
  const { resource: ofWebhooks, configuration } = published;
  const named = (name: string) => ({ fieldSelector: `metadata.name=${name}` });
  const secrets = createReflector({
    client,
    resource: SECRETS,
    log,
    select: { namespace, ...named(published.secretName) },
  });
  const configurations = createReflector({
    client,
    resource: ofWebhooks,
    log,
    select: named(configuration),
  });
  const all = reflectorSet([secrets, configurations]);
  const queue = createWorkQueue({
    name: "ca-publisher",
    concurrency: 1,
    run: async () => {
      const caBundle = caBundleToWrite(published, secrets, configurations);
      if (caBundle === undefined) return "done";
      await publish(client, published, caBundle);
      log.info({ configuration }, "the API server has the CAs to trust for the webhook");
      return "done";
    },
    log,
    backOff: BACK_OFFS.node,
  });
  const look = (): void => queue.add(configuration);
  secrets.subscribe({ added: look, updated: look });
  configurations.subscribe({ added: look, updated: look });
  return {
    start: all.start,
    stop: async () => {
      await queue.stop();
      await all.stop();
    },
  };
}

/** Undefined: there is nothing to write, or nowhere to. An apply to a configuration that is not there would be half of one. */
function caBundleToWrite(
  published: PublishedWebhook,
  secrets: Pick<Reflector<Secret>, "store">,
  configurations: Pick<Reflector<WebhookConfiguration>, "store">,
): string | undefined {
  const [secret] = secrets.store.list();
  const [configuration] = configurations.store.list();
  const webhook = configuration?.webhooks?.find(({ name }) => name === published.webhook);
  if (secret === undefined || webhook === undefined) return undefined;
  // Only certificates leave the Secret, whatever else it contains.
  const authorities = readBundle(storedPair(secret).bundlePem);
  const caBundle = Buffer.from(authorities.join("")).toString("base64");
  return caBundle === "" || webhook.clientConfig?.caBundle === caBundle ? undefined : caBundle;
}

async function publish(
  client: Pick<KubeClient, "apply">,
  { resource: ofWebhooks, configuration, webhook }: PublishedWebhook,
  caBundle: string,
): Promise<void> {
  const wanted = {
    apiVersion: "admissionregistration.k8s.io/v1",
    kind: ofWebhooks.kind,
    metadata: { name: configuration },
    webhooks: [{ name: webhook, clientConfig: { caBundle } }],
  };
  // Forced: a bundle of another writer does not fit our certificate.
  const options = { fieldManager: FIELD_MANAGERS.caPublisher, force: true };
  await client.apply("ca-publisher/publish", ofWebhooks, wanted, options);
}
