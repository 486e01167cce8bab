// The fixed names of Tidemark's API: group, drivers, field managers, labels, annotations. All are public; none ever changes meaning.

/** What CSI is told as the vendor's version; the same as in package.json. */
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
 * On a span's layout: the end of the operation that says nothing more of the members' growth, as its node dated it, and after a blank the
 * start of the one that ran when members were asked to grow.
 */
export const GROWTH_SETTLED_ANNOTATION = "tidemark.dev/growth-settled";
/**
 * On a span's layout, by the operator's clock: "time asked got", when it let go of a member that its driver had made too large to take the place
 * of others. It counts for the members' class.
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

/** The epoch on the leader's Lease. */
export const EPOCH_ANNOTATION = "tidemark.dev/epoch";

/** Where the agent says that a node has our drivers (CSI topology). */
export const TOPOLOGY_NODE = "topology.tidemark.dev/node";
/** What it says besides for spans, where the Node has such a label: a span's class may name them in allowedTopologies. */
export const TOPOLOGY_PLACES = ["topology.kubernetes.io/region", "topology.kubernetes.io/zone"] as const;
