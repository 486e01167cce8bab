// The policies in force: compiled when they change, and selected per claim. It writes nothing.
import type { ClusterVolumePolicy, VolumePolicy } from "../../api/volume-policy.ts";
import { objectKey } from "../../kube/object.ts";
import { compilePolicy } from "../compile-policy.ts";
import type { CompiledPolicy, PolicyProblem } from "../compiled-policy.ts";
import type { ClaimFacts } from "../facts.ts";
import { type CeilingPolicy, compileCeilings, PolicySet, type Selected } from "../select-policy.ts";
import type { Caches } from "./caches.ts";

export type AnyPolicy = VolumePolicy | ClusterVolumePolicy;

export interface PolicyBook {
  /** Who decides the claim, and under which ceilings. */
  forClaim(claim: ClaimFacts): Selected;
  /** Every policy object with what it compiled to. */
  entries(): Iterable<PolicyEntry>;
  /** Treats a policy as invalid for this reason, until its author changes it. */
  invalidate(compiled: CompiledPolicy, problem: PolicyProblem): void;
}

export interface PolicyEntry {
  readonly object: AnyPolicy;
  readonly compiled: CompiledPolicy;
}

/** `onChange` hears of each change after it is in force. */
export function createPolicyBook(
  caches: Pick<Caches, "policies" | "clusterPolicies" | "namespaces">,
  onChange: () => void,
): PolicyBook {
  const entries = new Map<string, PolicyEntry & { ceilings: CeilingPolicy | undefined }>();
  let set = new PolicySet([], []);

  const rebuild = (): void => {
    const all = [...entries.values()];
    set = new PolicySet(
      all.map(({ compiled }) => compiled),
      all.flatMap(({ ceilings }) => ceilings ?? []),
    );
    onChange();
  };
  const put = (object: AnyPolicy): void => {
    const key = `${object.kind}/${objectKey(object.metadata)}`;
    const known = entries.get(key);
    if (known !== undefined && isSamePolicy(known.object, object)) {
      // Only a status was written: our own, most likely.
      entries.set(key, { ...known, object });
      return;
    }
    const compiled = compilePolicy(object);
    const ceilings = object.kind === "ClusterVolumePolicy" ? compileCeilings(object, compiled) : undefined;
    entries.set(key, { object, compiled, ceilings });
    rebuild();
  };
  const remove = (object: AnyPolicy): void => {
    if (entries.delete(`${object.kind}/${objectKey(object.metadata)}`)) rebuild();
  };
  const handlers = { added: put, updated: put, deleted: remove };
  caches.policies.subscribe(handlers);
  caches.clusterPolicies.subscribe(handlers);
  return {
    forClaim: (claim) => set.select(claim, caches.namespaces.store.get(claim.namespace)?.metadata.labels ?? {}),
    entries: () => entries.values(),
    invalidate: (compiled, problem) => {
      const found = [...entries].find(([, entry]) => entry.compiled === compiled);
      if (found === undefined) return;
      const [key, entry] = found;
      entries.set(key, { ...entry, compiled: { ...compiled, rules: [], problems: [problem] } });
      rebuild();
    },
  };
}

function isSamePolicy(a: AnyPolicy, b: AnyPolicy): boolean {
  return a.metadata.uid === b.metadata.uid && a.metadata.generation === b.metadata.generation;
}
