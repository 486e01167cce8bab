// Whether the members' namespace is known to be Tidemark's, and safe for members. Pure. Labels alone prove nothing, since whoever makes a
// namespace writes its labels: what protects members there are admission policies, which are of no namespace, and only administrators write.
import { MEMBER_NAMESPACE } from "../../api/names.ts";
import type { Namespace, ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding } from "../../kube/resources.ts";

/** What protects members there, as kustomize/foundation has it. Who wraps that may give the namespace any other label another value. */
export const HOME_LABELS = { "pod-security.kubernetes.io/enforce": "restricted" } as const;

/** Without one of them somebody with rights in the namespace may delete members, let pods read them, or say who may. */
export const HOME_GUARDS = ["tidemark-member-guard", "tidemark-root-guard", "tidemark-member-scope"] as const;

export interface HomeGuard {
  readonly name: string;
  readonly policy: ValidatingAdmissionPolicy | undefined;
  readonly binding: ValidatingAdmissionPolicyBinding | undefined;
}

/** Why no member is to be placed there, with the command that mends it; undefined: one may be. */
export function homeProblem(namespace: Namespace | undefined, guards: readonly HomeGuard[]): string | undefined {
  const what = namespaceProblem(namespace) ?? guards.map(guardProblem).find((problem) => problem !== undefined);
  if (what === undefined) return undefined;
  return (
    `${what}: no member is placed in the namespace ${MEMBER_NAMESPACE}, and those that are there stay; look who else may write there ` +
    `(kubectl get rolebindings --namespace ${MEMBER_NAMESPACE}), then kubectl apply --server-side -k kustomize/foundation, or what wraps it`
  );
}

/** Why no member is to be placed where the operator's own role does not let it look, as an earlier version's does not. `said` by the API server. */
export function missingRight(kind: string, userName: string | undefined, said: string): string {
  return (
    `the operator may not see whether members are safe in the namespace ${MEMBER_NAMESPACE}: none is placed there, and those that are ` +
    `there stay; its account ${userName ?? "(this process is in no pod)"} lacks the verb get on ${kind}, which the ` +
    `ClusterRole tidemark-operator gives: kubectl apply --server-side -k your overlay of this version, or ` +
    `kustomize/base/operator/roles.yaml. The API server: ${said}`
  );
}

function namespaceProblem(namespace: Namespace | undefined): string | undefined {
  if (namespace === undefined) return `namespace ${MEMBER_NAMESPACE} is not there`;
  const { deletionTimestamp, labels = {} } = namespace.metadata;
  if (deletionTimestamp !== undefined) return `namespace ${MEMBER_NAMESPACE} is being deleted`;
  const lacking = Object.entries(HOME_LABELS).find(([key, value]) => labels[key] !== value);
  return (
    lacking && `namespace ${MEMBER_NAMESPACE} does not keep pods from members: it lacks the label ${lacking.join("=")}`
  );
}

/** One that is being deleted still refuses, as long as its finalizer holds it. */
function guardProblem({ name, policy, binding }: HomeGuard): string | undefined {
  if (policy === undefined) return `ValidatingAdmissionPolicy ${name} is not there`;
  if (policy.spec?.failurePolicy === "Ignore") return `ValidatingAdmissionPolicy ${name} lets through what it fails on`;
  const { policyName, validationActions = [], matchResources } = binding?.spec ?? {};
  if (policyName !== name) return `ValidatingAdmissionPolicyBinding ${name} is not there`;
  if (!validationActions.includes("Deny")) return `ValidatingAdmissionPolicyBinding ${name} denies nothing`;
  return matchResources === undefined ? undefined : `ValidatingAdmissionPolicyBinding ${name} is for some objects only`;
}
