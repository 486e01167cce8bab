// The fixed names of Tidemark's API: group, drivers, field managers, labels, annotations. All are public; none ever changes meaning.

/** The vendor's version in CSI; the same as in package.json. */
export const RELEASE = "0.1.0";

export const GROUP = "tidemark.dev";
export const VERSION = "v1alpha1";
export const API_VERSION = `${GROUP}/${VERSION}` as const;

export const LOCAL_DRIVER = "local.tidemark.dev";
export const SPAN_DRIVER = "span.tidemark.dev";

/** Where member claims live: kustomize/foundation has it, which no uninstall takes away; the operator makes it again where it is missing. */
export const MEMBER_NAMESPACE = "tidemark-volumes";

/**
 * Server-side-apply field managers: one per process, so that each group of fields has one owner. `claimRequest` is the operator's
 * on claims of other drivers: it owns spec.resources.requests.storage of those that it has raised, and nothing else.
 */
export const FIELD_MANAGERS = {
  policyEngine: "tidemark-policy-engine",
  operator: "tidemark-operator",
  agent: "tidemark-agent",
  caPublisher: "tidemark-ca-publisher",
  claimRequest: "tidemark-claim-request",
} as const;

/** The records that members and PersistentVolumes carry, from which a lost object is rebuilt. */
export const RECORDS = {
  volumeUID: "tidemark.dev/volume-uid",
  fsid: "tidemark.dev/fsid",
  fsType: "tidemark.dev/fs-type",
  volumeMode: "tidemark.dev/volume-mode",
  backend: "tidemark.dev/backend",
  initialSize: "tidemark.dev/initial-size",
  requestedSize: "tidemark.dev/requested-size",
  maxSize: "tidemark.dev/max-size",
  memberClass: "tidemark.dev/member-class",
  maxMembers: "tidemark.dev/max-members",
  spareMembers: "tidemark.dev/spare-members",
  strategy: "tidemark.dev/strategy",
  memberLabels: "tidemark.dev/member-labels",
  memberAnnotations: "tidemark.dev/member-annotations",
  deviceClass: "tidemark.dev/device-class",
  logicalVolume: "tidemark.dev/logical-volume",
} as const;

/** On a member claim, its PersistentVolume and its VolumeAttachments: the member's name within its filesystem. */
export const MEMBER_LABEL = "tidemark.dev/member";

/** On a member's PersistentVolume: why its node has not taken it in, since its device carries something. */
export const REFUSED_ANNOTATION = "tidemark.dev/refused";

/** Kubernetes' own, on a claim that waits for its consumer: the node that the scheduler has chosen. */
export const SELECTED_NODE = "volume.kubernetes.io/selected-node";

/** On a layout: the node that the scheduler chose first, for member classes that wait for a consumer. */
export const SELECTED_NODE_ANNOTATION = "tidemark.dev/selected-node";

/** On a layout, and on its members' claims once one has left: the number of the member that is made next, so that no name is ever used again. */
export const NEXT_MEMBER_ANNOTATION = "tidemark.dev/next-member";

/**
 * On a span's layout, by the operator's clock: when it found that a member's driver had agreed to grow it and its device did not follow. It
 * counts for the members' class.
 */
export const GROWTH_FAILED_ANNOTATION = "tidemark.dev/growth-failed-at";
/** On a span's layout, by the operator's clock: when it found that a member had grown although its class had failed to grow one before. */
export const GROWTH_WORKED_ANNOTATION = "tidemark.dev/growth-worked-at";
/** On a span's layout: "time member size", when a member was asked to grow to that size although its class had failed to grow one before. */
export const GROWTH_ASKED_ANNOTATION = "tidemark.dev/growth-asked";
/**
 * On a span's layout, two times, separated by a blank: the end of the last operation whose members' growth is settled, as its node dated
 * it, and the start of the one that ran when members were asked to grow.
 */
export const GROWTH_SETTLED_ANNOTATION = "tidemark.dev/growth-settled";
/**
 * On a span's layout, by the operator's clock: "time asked got", when it released a member that its driver had made too large to take the
 * place of others. It counts for the members' class.
 */
export const MEMBER_ROUNDED_ANNOTATION = "tidemark.dev/member-rounded";

/** On an ordinary claim's layout: why its present target did not become the claim's request. */
export const REFUSAL_ANNOTATION = "tidemark.dev/refusal";

/** On a logical volume, by lvmd: its wipe has begun, and all that is left to do with it is its removal. */
export const WIPE_BEGUN_TAG = "tidemark.dev/wipe-begun";
/** On a thin snapshot, with `=` and the name of the volume that it can take back: it goes when the volume's shrink has ended. */
export const GUARD_TAG = "tidemark.dev/guards";

/** On a claim: "Delete" has it deleted when its node is lost, so that its StatefulSet makes a new one elsewhere. */
export const ON_NODE_LOSS_ANNOTATION = "tidemark.dev/on-node-loss";

/** On a claim, by its owner: until then no rule of its policy extends it, and nothing shrinks it. RFC 3339, at most 30 days ahead. */
export const PAUSED_UNTIL_ANNOTATION = "tidemark.dev/paused-until";

/** The epoch on the leader's Lease. */
export const EPOCH_ANNOTATION = "tidemark.dev/epoch";

/** Where the agent says that a node has our drivers (CSI topology). */
export const TOPOLOGY_NODE = "topology.tidemark.dev/node";
/** What it says besides for spans, where the Node has such a label: a span's class may name them in allowedTopologies. */
export const TOPOLOGY_PLACES = ["topology.kubernetes.io/region", "topology.kubernetes.io/zone"] as const;

// How pods reach the placement component.

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

export const POLICY_WEBHOOK = {
  /** The ValidatingWebhookConfiguration, and the webhook in it. */
  configuration: "tidemark-policies",
  webhook: "policies.tidemark.dev",
  service: "policy-webhook",
  path: "/validate-policies",
} as const;

/** In the policy-engine's namespace: the CA that only the policy-engine reads, and the webhook's own certificate. */
export const POLICY_WEBHOOK_SECRETS = {
  authority: "tidemark-policy-webhook-ca",
  server: "tidemark-policy-webhook-tls",
} as const;

/** What the extender's and a scheduler's certificates name, whatever address is called. */
export const EXTENDER_CERTIFICATE_NAME = "extender.tidemark.dev";
export const SCHEDULER_CERTIFICATE_NAME = "scheduler.tidemark.dev";

/** In the same namespace, signed by the webhook's CA: the extender reads the first, pods of schedulers mount the second. */
export const EXTENDER_SECRETS = { extender: "tidemark-extender-tls", scheduler: "tidemark-scheduler-tls" } as const;

// Names in the certificates of the sample stream. They name roles, not places: no namespace, prefix or cluster domain.

/** What the engines' certificate names, and what agents ask for, whatever address they call. */
export const ENGINE_CERTIFICATE_NAME = "policy-engine.tidemark.dev";
export const AGENT_CERTIFICATE_NAME = "agent.tidemark.dev";

/** For whom an agent's service account token is. */
export const SAMPLES_AUDIENCE = "tidemark-policy-engine";

/** Secrets in our own namespace. No pod mounts the first two; agents mount the third. */
export const CERTIFICATE_SECRETS = {
  authority: "tidemark-policy-engine-ca",
  engine: "tidemark-policy-engine-tls",
  agent: "tidemark-agent-tls",
} as const;

// Parameters of our StorageClasses that more than one process reads.

export const BACKEND_PARAMETER = "backend";
export const INITIAL_SIZE_PARAMETER = "initialSize";
/** Of the backend lvm. */
export const DEVICE_CLASS_PARAMETER = "deviceClass";
/** Of the backend span. */
export const MEMBER_CLASS_PARAMETER = "memberStorageClassName";
