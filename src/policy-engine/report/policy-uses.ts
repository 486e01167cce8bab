// What became of each policy, over all volumes: how many filesystems it decides, how large they may become, and which other policies decide
// what it selects. It reads caches only, in short turns, so that decisions come in between.
import type { FilesystemLayout } from "../../contracts/kinds/filesystem-layout.ts";
import { NO_LABELS } from "../../contracts/schema/label-selector.ts";
import type { Caches } from "../gather/caches.ts";
import { claimFactsOf } from "../gather/claim-facts.ts";
import type { PolicyBook } from "../gather/policy-book.ts";
import { type CompiledPolicy, selectsClaim } from "../policies/compiled-policy.ts";
import { cappedByRequest, reachBytes } from "../sizing/sizes.ts";

export interface PolicyUse {
  readonly matchedFilesystems: number;
  /** The most that these may have in all, in bytes, and how many of them no ceiling bounds. */
  readonly reachBytes: number;
  readonly withoutCeiling: number;
  /** How many of these stop below limits.max, at a multiple of the request, and the first of them; undefined: none does. */
  readonly capped: Capped | undefined;
  /** Policies of the same scope and priority that select a claim too. */
  readonly conflicts: ReadonlySet<string>;
  /** Those of them that decide such claims, as older ones: how many each. */
  readonly lostTo: ReadonlyMap<string, number>;
  /** Others that decide all claims that it selects: how many each. Empty: it decides some, or selects none. */
  readonly shadowedBy: ReadonlyMap<string, number>;
}

export interface Capped {
  readonly volumes: number;
  /** "namespace/name" of a claim, and where it stops. */
  readonly example: string;
  readonly bytes: number;
}

type Draft = ReturnType<typeof unused>;
type Read = Pick<Caches, "layouts" | "claims" | "storageClasses" | "namespaces">;

/** Volumes in one turn: a few milliseconds. */
const TURN_VOLUMES = 1000;

export function unused() {
  return {
    matchedFilesystems: 0,
    reachBytes: 0,
    withoutCeiling: 0,
    capped: undefined as Capped | undefined,
    conflicts: new Set<string>(),
    lostTo: new Map<string, number>(),
    shadowedBy: new Map<string, number>(),
  };
}

/** By the policy's key; absent: it decides nothing, and stands in no other's way. `nextTurn` comes between two turns. */
export async function policyUses(
  caches: Read,
  policies: PolicyBook,
  nextTurn: () => Promise<void>,
): Promise<ReadonlyMap<string, PolicyUse>> {
  const uses = new Map<string, Draft>();
  const useOf = (key: string): Draft => {
    const use = uses.get(key) ?? unused();
    uses.set(key, use);
    return use;
  };
  await inTurns(caches.layouts.store.list(), nextTurn, (layout) => addUse(caches, policies, layout, useOf));
  const idle = idlePolicies(policies, uses);
  if (idle.size > 0)
    await inTurns(caches.layouts.store.list(), nextTurn, (layout) => addShadows(caches, policies, layout, idle, useOf));
  return uses;
}

async function inTurns<T>(all: readonly T[], nextTurn: () => Promise<void>, act: (one: T) => void): Promise<void> {
  for (let start = 0; start < all.length; start += TURN_VOLUMES) {
    if (start > 0) await nextTurn();
    for (const one of all.slice(start, start + TURN_VOLUMES)) act(one);
  }
}

function addUse(caches: Read, policies: PolicyBook, layout: FilesystemLayout, useOf: (key: string) => Draft): void {
  const claim = claimFactsOf(caches, layout);
  if (claim === undefined) return;
  const { policy, conflicts, ceilings } = policies.forClaim(claim);
  if (policy === undefined) return;
  const use = useOf(policy.key);
  use.matchedFilesystems += 1;
  use.reachBytes += reachBytes(claim, policy, ceilings);
  if (ceilings.maxBytes === undefined && ceilings.namespaceBytes === undefined) use.withoutCeiling += 1;
  const bytes = cappedByRequest(claim, policy, ceilings);
  if (bytes !== undefined) {
    const first = use.capped ?? { volumes: 0, example: `${claim.namespace}/${claim.name}`, bytes };
    use.capped = { ...first, volumes: first.volumes + 1 };
  }
  for (const key of conflicts) {
    use.conflicts.add(key);
    const loser = useOf(key);
    loser.conflicts.add(policy.key);
    count(loser.lostTo, policy.key);
  }
}

/** Policies that could decide claims and decide none, by their namespace; undefined: the cluster's. */
type IdlePolicies = ReadonlyMap<string | undefined, readonly CompiledPolicy[]>;

function idlePolicies(policies: PolicyBook, uses: ReadonlyMap<string, Draft>): IdlePolicies {
  const idle = new Map<string | undefined, CompiledPolicy[]>();
  for (const { compiled } of policies.entries()) {
    if (!compiled.decides || (uses.get(compiled.key)?.matchedFilesystems ?? 0) > 0) continue;
    const { namespace } = compiled.selection;
    const of = idle.get(namespace) ?? [];
    idle.set(namespace, of);
    of.push(compiled);
  }
  return idle;
}

function addShadows(
  caches: Read,
  policies: PolicyBook,
  layout: FilesystemLayout,
  idle: IdlePolicies,
  useOf: (key: string) => Draft,
): void {
  const namespace = layout.spec.claimRef?.namespace ?? "";
  const candidates = [...(idle.get(namespace) ?? []), ...(idle.get(undefined) ?? [])];
  const claim = candidates.length === 0 ? undefined : claimFactsOf(caches, layout);
  if (claim === undefined) return;
  const namespaceLabels = caches.namespaces.store.get(namespace)?.metadata.labels ?? NO_LABELS;
  const selecting = candidates.filter(({ selection }) => selectsClaim(selection, claim, namespaceLabels));
  const winner = selecting.length === 0 ? undefined : policies.forClaim(claim).policy;
  if (winner === undefined) return;
  for (const { key } of selecting) if (key !== winner.key) count(useOf(key).shadowedBy, winner.key);
}

function count(counts: Map<string, number>, key: string): void {
  counts.set(key, (counts.get(key) ?? 0) + 1);
}
