// Keeps the CAs that have signed the webhook's certificate in its configuration, while this replica leads. All else in there is of whoever
// installs it: nothing is made here, and one field is owned, by server-side apply.
import { FIELD_MANAGERS } from "../../api/names.ts";
import { POD_WEBHOOK } from "../../api/placement.ts";
import type { KubeClient } from "../../kube/client.ts";
import type { Reflector } from "../../kube/reflector.ts";
import { MUTATING_WEBHOOK_CONFIGURATIONS, type MutatingWebhookConfiguration } from "../../kube/resources.ts";
import type { Logger } from "../../process/log.ts";
import { createLedQueue, type Duty } from "../led-queue.ts";

export interface AuthorityPublisher extends Duty {
  /** The CAs to trust are these from now on, as PEM. */
  take(bundlePem: string): void;
}

const BACK_OFF = { baseMs: 200, capMs: 30_000 };

export function createAuthorityPublisher(
  client: Pick<KubeClient, "apply">,
  configurations: Reflector<MutatingWebhookConfiguration>,
  log: Logger,
): AuthorityPublisher {
  let bundlePem = "";
  const queue = createLedQueue(
    { synced: configurations.synced, keys: () => [POD_WEBHOOK.configuration] },
    {
      name: "webhook-authority",
      concurrency: 1,
      run: async (name) => {
        const caBundle = Buffer.from(bundlePem).toString("base64");
        const webhook = webhookOf(configurations.store.get(name));
        // An apply to one that is not there would be half of one.
        if (webhook === undefined || caBundle === "" || webhook.clientConfig?.caBundle === caBundle) return "done";
        await publish(client, caBundle);
        log.info({ configuration: name }, "the API server is told which CAs to trust for the webhook");
        return "done";
      },
      log,
      backOff: BACK_OFF,
    },
  );
  configurations.subscribe({ added: queue.addAll, updated: queue.addAll });
  return {
    begin: queue.begin,
    end: queue.end,
    take: (pem) => {
      bundlePem = pem;
      queue.addAll();
    },
  };
}

export function webhookOf(configuration: MutatingWebhookConfiguration | undefined) {
  return configuration?.webhooks?.find(({ name }) => name === POD_WEBHOOK.webhook);
}

async function publish(client: Pick<KubeClient, "apply">, caBundle: string): Promise<void> {
  const configuration = {
    apiVersion: "admissionregistration.k8s.io/v1",
    kind: "MutatingWebhookConfiguration",
    metadata: { name: POD_WEBHOOK.configuration },
    webhooks: [{ name: POD_WEBHOOK.webhook, clientConfig: { caBundle } }],
  };
  // Forced: a bundle that somebody else wrote there is one that our certificate does not fit.
  const options = { fieldManager: FIELD_MANAGERS.operator, force: true };
  await client.apply("pod-webhook/publish-authority", MUTATING_WEBHOOK_CONFIGURATIONS, configuration, options);
}
