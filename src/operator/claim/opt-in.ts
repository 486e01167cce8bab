// Which ordinary claims people have opted in: those whose policy, the one that decides them, says claimBackend: Enabled. The same
// selection as the policy-engine's, for which no expression has to be compiled.
import { NO_LABELS } from "../../api/label-selector.ts";
import type { PersistentVolumeClaim } from "../../kube/resources.ts";
import { type AnyPolicy, type CompiledPolicy, outlinePolicy, PolicySet } from "../../policy-engine/index.ts";
import type { ClaimCaches } from "./claim-caches.ts";

/** The key of the policy that opts the claim in; undefined: nobody does. */
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
