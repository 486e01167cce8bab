// Whether the members' namespace is known to be Tidemark's, and safe for members. Pure. Labels alone prove nothing,
// since a user who makes a namespace writes its labels. Admission policies protect members there: they are of no
// namespace, and only administrators write them.

import type {
  Namespace,
  ValidatingAdmissionPolicy,
  ValidatingAdmissionPolicyBinding,
} from "../../contracts/kubernetes/resources.ts";
import { MEMBER_NAMESPACE } from "../../contracts/names.ts";
import { withDetail } from "../../contracts/printable.ts";

/** What protects members there, as kustomize/foundation has it. Who wraps that may give the namespace any other label another value. */
export const HOME_LABELS = { "pod-security.kubernetes.io/enforce": "restricted" } as const;

/**
 * Without one of them a user with rights in the namespace may delete members, let pods read them, or give others those
 * rights.
 */
export const HOME_GUARDS = ["tidemark-member-guard", "tidemark-root-guard", "tidemark-member-scope"] as const;

export interface HomeGuard {
  readonly name: string;
  readonly policy: ValidatingAdmissionPolicy | undefined;
  readonly binding: ValidatingAdmissionPolicyBinding | undefined;
}

/** Why no member is to be placed there, with the command that mends it; undefined: one may be. */
export function homeProblem(
  namespace: Pick<Namespace, "metadata"> | undefined,
  guards: readonly HomeGuard[],
): string | undefined {
  const what = namespaceProblem(namespace) ?? guards.map(guardProblem).find((problem) => problem !== undefined);
  if (what === undefined) return undefined;
  return `Check the RoleBindings of ${MEMBER_NAMESPACE}, then apply kustomize/foundation: ${what}`;
}

/** Why no member is to be placed where the operator's own role does not let it look, as an earlier version's does not. `said` by the API server. */
export function missingRight(kind: string, said: string): string {
  const what = `No member is placed: apply kustomize/base/operator/roles.yaml, as the operator may not get ${kind}`;
  return withDetail(what, said);
}

function namespaceProblem(namespace: Pick<Namespace, "metadata"> | undefined): string | undefined {
  if (namespace === undefined) return "the namespace does not exist";
  const { deletionTimestamp, labels = {} } = namespace.metadata;
  if (deletionTimestamp !== undefined) return "the namespace is being deleted";
  const lacking = Object.entries(HOME_LABELS).find(([key, value]) => labels[key] !== value);
  return lacking && `the namespace lacks the label ${lacking.join("=")}`;
}

/** One that is being deleted still refuses, as long as its finalizer holds it. */
function guardProblem({ name, policy, binding }: HomeGuard): string | undefined {
  if (policy === undefined) return `ValidatingAdmissionPolicy ${name} does not exist`;
  if (policy.spec?.failurePolicy === "Ignore") return `ValidatingAdmissionPolicy ${name} lets through what it fails on`;
  const { policyName, validationActions = [], matchResources } = binding?.spec ?? {};
  if (policyName !== name) return `ValidatingAdmissionPolicyBinding ${name} does not exist`;
  if (!validationActions.includes("Deny")) return `ValidatingAdmissionPolicyBinding ${name} denies nothing`;
  return matchResources === undefined ? undefined : `ValidatingAdmissionPolicyBinding ${name} is for some objects only`;
}
