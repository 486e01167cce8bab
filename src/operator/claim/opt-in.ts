// Which ordinary claims people have opted in: those whose policy, the one that decides them, says claimBackend: Enabled. The same
// selection as the policy-engine's, compiled once for each change of a policy.
import type { ClusterVolumePolicy, VolumePolicy } from "../../api/volume-policy.ts";
import type { PersistentVolumeClaim } from "../../kube/resources.ts";
import { type CompiledPolicy, compilePolicy, PolicySet } from "../../policy-engine/index.ts";
import type { ClaimCaches } from "./claim-caches.ts";

/** The key of the policy that opts the claim in; undefined: nobody does. */
export type OptIn = (claim: PersistentVolumeClaim) => string | undefined;

export function createOptIn({
  policies,
  clusterPolicies,
  namespaces,
}: Pick<ClaimCaches, "policies" | "clusterPolicies" | "namespaces">): OptIn {
  const compiled = new Map<string, CompiledPolicy>();
  let set: PolicySet | undefined;
  const put = (policy: VolumePolicy | ClusterVolumePolicy): void => {
    compiled.set(nameOf(policy), compilePolicy(policy));
    set = undefined;
  };
  const remove = (policy: VolumePolicy | ClusterVolumePolicy): void => {
    compiled.delete(nameOf(policy));
    set = undefined;
  };
  const replace = (policy: VolumePolicy | ClusterVolumePolicy, before: VolumePolicy | ClusterVolumePolicy): void => {
    if (policy.metadata.generation !== before.metadata.generation || policy.metadata.uid !== before.metadata.uid)
      put(policy);
  };
  const handlers = { added: put, updated: replace, deleted: remove };
  policies.subscribe(handlers);
  clusterPolicies.subscribe(handlers);
  return ({ metadata, spec }) => {
    const namespace = metadata.namespace ?? "";
    set ??= new PolicySet([...compiled.values()], []);
    const claim = { namespace, labels: metadata.labels ?? {}, storageClassName: spec.storageClassName ?? "" };
    const { policy } = set.select(claim, namespaces.store.get(namespace)?.metadata.labels ?? {});
    return policy?.claimBackend === "Enabled" ? policy.key : undefined;
  };
}

function nameOf({ kind, metadata }: VolumePolicy | ClusterVolumePolicy): string {
  return `${kind}/${metadata.namespace ?? ""}/${metadata.name}`;
}
