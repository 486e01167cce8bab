// Copies the CAs that have signed the pod webhook's certificate from its Secret into the webhook's configuration. All else in there belongs
// to those who install it: nothing is made here, and one field is owned, by server-side apply.
import { FIELD_MANAGERS } from "../api/names.ts";
import { POD_WEBHOOK, POD_WEBHOOK_SECRETS } from "../api/placement.ts";
import { createReflector, type Reflector } from "../kube/cache/reflector.ts";
import { reflectorSet } from "../kube/cache/reflector-set.ts";
import type { KubeClient } from "../kube/client/client.ts";
import { createWorkQueue } from "../kube/queue/work-queue.ts";
import {
  MUTATING_WEBHOOK_CONFIGURATIONS,
  type MutatingWebhookConfiguration,
  SECRETS,
  type Secret,
} from "../kube/resources.ts";
import { readBundle } from "../process/certificates/key-pair.ts";
import { storedPair } from "../process/certificates/pair-secret.ts";
import type { Logger } from "../process/log.ts";

export interface CaPublisher {
  start(): void;
  stop(): Promise<void>;
}

const BACK_OFF = { baseMs: 200, capMs: 30_000 };

/** `namespace`: of the Secret. */
export function createCaPublisher(client: KubeClient, namespace: string, log: Logger): CaPublisher {
  const named = (name: string) => ({ fieldSelector: `metadata.name=${name}` });
  const secrets = createReflector({
    client,
    resource: SECRETS,
    log,
    select: { namespace, ...named(POD_WEBHOOK_SECRETS.server) },
  });
  const configurations = createReflector({
    client,
    resource: MUTATING_WEBHOOK_CONFIGURATIONS,
    log,
    select: named(POD_WEBHOOK.configuration),
  });
  const all = reflectorSet([secrets, configurations]);
  const queue = createWorkQueue({
    name: "ca-publisher",
    concurrency: 1,
    run: async () => {
      const caBundle = caBundleToWrite(secrets, configurations);
      if (caBundle === undefined) return "done";
      await publish(client, caBundle);
      log.info({ configuration: POD_WEBHOOK.configuration }, "the API server has the CAs to trust for the webhook");
      return "done";
    },
    log,
    backOff: BACK_OFF,
  });
  const look = (): void => queue.add(POD_WEBHOOK.configuration);
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
  secrets: Pick<Reflector<Secret>, "store">,
  configurations: Pick<Reflector<MutatingWebhookConfiguration>, "store">,
): string | undefined {
  const [secret] = secrets.store.list();
  const [configuration] = configurations.store.list();
  const webhook = configuration?.webhooks?.find(({ name }) => name === POD_WEBHOOK.webhook);
  if (secret === undefined || webhook === undefined) return undefined;
  // Only certificates leave the Secret, whatever somebody wrote into it.
  const authorities = readBundle(storedPair(secret).bundlePem);
  const caBundle = Buffer.from(authorities.join("")).toString("base64");
  return caBundle === "" || webhook.clientConfig?.caBundle === caBundle ? undefined : caBundle;
}

async function publish(client: Pick<KubeClient, "apply">, caBundle: string): Promise<void> {
  const configuration = {
    apiVersion: "admissionregistration.k8s.io/v1",
    kind: "MutatingWebhookConfiguration",
    metadata: { name: POD_WEBHOOK.configuration },
    webhooks: [{ name: POD_WEBHOOK.webhook, clientConfig: { caBundle } }],
  };
  // Forced: a bundle that somebody else wrote there is one that our certificate does not fit.
  const options = { fieldManager: FIELD_MANAGERS.caPublisher, force: true };
  await client.apply("ca-publisher/publish", MUTATING_WEBHOOK_CONFIGURATIONS, configuration, options);
}
