// Everything that is decided on about one ordinary claim, read from the caches at once; and which of them people have opted in: those
// whose policy, the one that decides them, says claimBackend: Enabled. That is the same selection as the policy-engine's, for which no
// expression has to be compiled.
import type { Filesystem } from "../../contracts/kinds/filesystem.ts";
import type { FilesystemLayout } from "../../contracts/kinds/filesystem-layout.ts";
import { objectKey } from "../../contracts/kubernetes/object.ts";
import type {
  PersistentVolume,
  PersistentVolumeClaim,
  StorageClass,
  VolumeAttachment,
} from "../../contracts/kubernetes/resources.ts";
import { NO_LABELS } from "../../contracts/schema/label-selector.ts";
import { type AnyPolicy, type CompiledPolicy, outlinePolicy, PolicySet } from "../../policy-engine/index.ts";
import type { ClaimCaches } from "./claim-caches.ts";

export interface OrdinaryClaim {
  readonly handle: string;
  readonly claim: PersistentVolumeClaim;
  /** The volume that is bound to this very claim, as both say. */
  readonly volume: PersistentVolume | undefined;
  readonly storageClass: StorageClass | undefined;
  /** The policy that opts it in. */
  readonly optedInBy: string | undefined;
  /** Where it is used. */
  readonly nodeName: string | undefined;
  readonly layout: FilesystemLayout | undefined;
  /** Of this very claim. */
  readonly filesystem: Filesystem | undefined;
}

/** Undefined: the claim no longer exists, or is being deleted. */
export function gatherClaim(caches: ClaimCaches, optIn: OptIn, handle: string): OrdinaryClaim | undefined {
  const claim = caches.claims.store.byIndex("handle", handle)[0];
  if (claim === undefined || claim.metadata.deletionTimestamp !== undefined) return undefined;
  const volume = boundVolume(claim, caches.persistentVolumes.store.get(claim.spec.volumeName ?? ""));
  const filesystem = caches.filesystems.store.get(objectKey(claim.metadata));
  const attachments = volume === undefined ? [] : caches.attachments.store.byIndex("volume", volume.metadata.name);
  return {
    handle,
    claim,
    volume,
    storageClass: caches.storageClasses.store.get(claim.spec.storageClassName ?? ""),
    optedInBy: optIn(claim),
    nodeName: volume && nodeOfVolume(volume, attachments),
    layout: caches.layouts.store.get(handle),
    filesystem: filesystem?.spec.claimRef?.uid === claim.metadata.uid ? filesystem : undefined,
  };
}

function boundVolume(
  { metadata, status }: PersistentVolumeClaim,
  volume: PersistentVolume | undefined,
): PersistentVolume | undefined {
  return status?.phase === "Bound" && volume?.spec.claimRef?.uid === metadata.uid ? volume : undefined;
}

/**
 * Which node's agent may speak for the claim: not what an agent says counts, but what the control plane has written, which is where the
 * volume is attached, or the only node that its topology allows. Undefined: the volume is nowhere now, or on no node that could speak for it, such as a network filesystem that is
 * never attached.
 */
export function nodeOfVolume(volume: PersistentVolume, attachments: readonly VolumeAttachment[]): string | undefined {
  const attached = attachments
    .filter(({ metadata, status }) => status?.attached === true && metadata.deletionTimestamp === undefined)
    .map(({ spec }) => spec.nodeName);
  // Attached to several, each sees the same use: always the same one of them speaks.
  return attached.sort()[0] ?? onlyNodeOf(volume);
}

/** Topology keys of local drivers have the node's name for a value; there is exactly one key with exactly one value. */
function onlyNodeOf({ spec }: PersistentVolume): string | undefined {
  const terms = spec.nodeAffinity?.required?.nodeSelectorTerms ?? [];
  const expressions = terms.flatMap(({ matchExpressions = [] }) => matchExpressions);
  const [only] = expressions;
  if (expressions.length !== 1 || only?.operator !== "In" || only.values?.length !== 1) return undefined;
  return /(^|\/)(hostname|node|nodename)$/.test(only.key) ? only.values[0] : undefined;
}

/** The key of the policy that opts the claim in; undefined: no policy does. */
export type OptIn = (claim: PersistentVolumeClaim) => string | undefined;

export function createOptIn({
  policies,
  clusterPolicies,
  namespaces,
}: Pick<ClaimCaches, "policies" | "clusterPolicies" | "namespaces">): OptIn {
  const outlines = new Map<string, CompiledPolicy>();
  let set: PolicySet | undefined;
  const put = (policy: AnyPolicy): void => {
    outlines.set(nameOf(policy), outlinePolicy(policy));
    set = undefined;
  };
  const remove = (policy: AnyPolicy): void => {
    outlines.delete(nameOf(policy));
    set = undefined;
  };
  const replace = (policy: AnyPolicy, before: AnyPolicy): void => {
    if (policy.metadata.generation !== before.metadata.generation || policy.metadata.uid !== before.metadata.uid)
      put(policy);
  };
  const handlers = { added: put, updated: replace, deleted: remove };
  policies.subscribe(handlers);
  clusterPolicies.subscribe(handlers);
  return ({ metadata, spec }) => {
    const namespace = metadata.namespace ?? "";
    set ??= new PolicySet([...outlines.values()], []);
    const claim = { namespace, labels: metadata.labels ?? NO_LABELS, storageClassName: spec.storageClassName ?? "" };
    const { policy } = set.select(claim, namespaces.store.get(namespace)?.metadata.labels ?? NO_LABELS);
    return policy?.claimBackend === "Enabled" ? policy.key : undefined;
  };
}

function nameOf({ kind, metadata }: AnyPolicy): string {
  return `${kind}/${metadata.namespace ?? ""}/${metadata.name}`;
}
