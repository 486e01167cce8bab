// What a candidate does about the Lease it has just read. Pure: time is the monotonic clock's, handed in; the times written
// in the Lease are for people and never compared, since they come from other machines' clocks.

import type { Lease } from "../../../contracts/kubernetes/resources.ts";
import { EPOCH_ANNOTATION } from "../../../contracts/names.ts";

/** A version of the Lease, and since when this candidate has seen no other. */
export interface Observation {
  /** Undefined: there is no Lease. */
  readonly resourceVersion: string | undefined;
  readonly sinceMs: number;
}

export type LeaseDecision =
  /** There is no leader: take it, if the Lease is still this version. */
  | { readonly do: "take" }
  /** Another candidate may lead until `untilMs`, unless the Lease changes again. */
  | { readonly do: "wait"; readonly untilMs: number };

export interface LeaseRules {
  readonly identity: string;
  readonly leaseDurationMs: number;
}

/** Keeps the old observation while the Lease is the same version. */
export function observe(before: Observation | undefined, lease: Lease | undefined, nowMs: number): Observation {
  const resourceVersion = lease?.metadata.resourceVersion;
  return before !== undefined && before.resourceVersion === resourceVersion
    ? before
    : { resourceVersion, sinceMs: nowMs };
}

/**
 * `highestKnownEpoch` is the highest epoch on any object, 0 when there is none. A Lease that is missing although epochs
 * are known was deleted under a leader, who may not have noticed yet: it is waited for like a held one.
 */
export function decideLease(
  lease: Lease | undefined,
  observation: Observation,
  highestKnownEpoch: number,
  nowMs: number,
  rules: LeaseRules,
): LeaseDecision {
  const holder = lease?.spec?.holderIdentity ?? "";
  if (lease !== undefined && (holder === "" || holder === rules.identity)) return { do: "take" };
  if (lease === undefined && highestKnownEpoch === 0) return { do: "take" };
  // A holder of another configuration may count on a longer lease than ours.
  const heldMs = Math.max(rules.leaseDurationMs, (lease?.spec?.leaseDurationSeconds ?? 0) * 1000);
  const untilMs = observation.sinceMs + heldMs;
  return nowMs >= untilMs ? { do: "take" } : { do: "wait", untilMs };
}

/** The epoch on the Lease; 0 when it carries none. Throws when it is unreadable: a low guess would let a stale leader write. */
export function epochOf(lease: Lease | undefined): number {
  const text = lease?.metadata.annotations?.[EPOCH_ANNOTATION];
  if (text === undefined) return 0;
  const epoch = Number(text);
  if (!/^\d+$/.test(text) || !Number.isSafeInteger(epoch))
    throw new Error(
      `Lease ${lease?.metadata.namespace}/${lease?.metadata.name}: annotation ${EPOCH_ANNOTATION}: "${text}" is not an epoch; ` +
        "remove the annotation: the epoch then follows from the Filesystems and agents",
    );
  return epoch;
}

/** The Lease as its new holder writes it: identity and epoch in one update. */
export function takenLease(
  lease: Lease | undefined,
  name: { readonly namespace: string; readonly name: string },
  epoch: number,
  wallMs: number,
  rules: LeaseRules,
): Lease {
  return {
    apiVersion: "coordination.k8s.io/v1",
    kind: "Lease",
    metadata: {
      ...lease?.metadata,
      ...name,
      annotations: { ...lease?.metadata.annotations, [EPOCH_ANNOTATION]: String(epoch) },
    },
    spec: {
      holderIdentity: rules.identity,
      leaseDurationSeconds: Math.ceil(rules.leaseDurationMs / 1000),
      acquireTime: microTime(wallMs),
      renewTime: microTime(wallMs),
      leaseTransitions: (lease?.spec?.leaseTransitions ?? -1) + 1,
    },
  };
}

/** The Lease with a new renewTime. */
export function renewedLease(lease: Lease, wallMs: number): Lease {
  return { ...lease, spec: { ...lease.spec, renewTime: microTime(wallMs) } };
}

/** The Lease without a holder; its epoch stays. */
export function releasedLease(lease: Lease, wallMs: number): Lease {
  return { ...lease, spec: { ...lease.spec, holderIdentity: "", renewTime: microTime(wallMs) } };
}

/** Kubernetes' MicroTime, which is parsed with exactly six digits. */
function microTime(wallMs: number): string {
  return new Date(wallMs).toISOString().replace("Z", "000Z");
}
