// What processes remember of policies. Their authors may write a MiB of labels and annotations beside each, which nothing here reads.
import type { ListOptions } from "../kube/client/client.ts";
import type { KubeObject } from "../kube/object.ts";

/** A policy may be as large as an object can be: few of them at once are read into memory. */
export const POLICY_PAGES: ListOptions = { pageSize: 25 };

/** The policy without what its authors may write beside it. */
export function policyInBrief<T extends KubeObject>(policy: T): T {
  const { name, namespace, uid, generation, resourceVersion, creationTimestamp, deletionTimestamp } = policy.metadata;
  const metadata = { name, namespace, uid, generation, resourceVersion, creationTimestamp, deletionTimestamp };
  const known = Object.entries(metadata).filter(([, value]) => value !== undefined);
  return { ...policy, metadata: Object.fromEntries(known) as unknown as T["metadata"] };
}
