// The fixed names by which pods reach the placement component: its scheduler, what it is asked with, and its webhook. All are public.

/** The scheduler of the placement component, which asks the extender. */
export const TIDEMARK_SCHEDULER = "tidemark-scheduler";
/** What pods have that name no scheduler. */
export const DEFAULT_SCHEDULER = "default-scheduler";

/** The resource by which a scheduler knows that it has to ask the extender about a pod. No node offers it, the scheduler ignores it. */
export const CAPACITY_RESOURCE = "tidemark.dev/capacity";

/** With the name of a StorageClass after it: the bytes of a pod's claims of that class that are still to be provisioned. For people: what decides counts the claims. */
export const CAPACITY_ANNOTATION_PREFIX = "capacity.tidemark.dev/";

export const POD_WEBHOOK = {
  /** The MutatingWebhookConfiguration, and the webhook in it. */
  configuration: "tidemark-pod-placement",
  webhook: "pods.placement.tidemark.dev",
  service: "pod-webhook",
  path: "/mutate-pods",
} as const;

/** In the operator's namespace: the CA that only the operator reads, and the webhook's own certificate. */
export const POD_WEBHOOK_SECRETS = {
  authority: "tidemark-pod-webhook-ca",
  server: "tidemark-pod-webhook-tls",
} as const;

/** What the extender's and a scheduler's certificates name, whatever address is called. */
export const EXTENDER_CERTIFICATE_NAME = "extender.tidemark.dev";
export const SCHEDULER_CERTIFICATE_NAME = "scheduler.tidemark.dev";

/** In the same namespace, signed by the webhook's CA: the extender reads the first, pods of schedulers mount the second. */
export const EXTENDER_SECRETS = { extender: "tidemark-extender-tls", scheduler: "tidemark-scheduler-tls" } as const;
