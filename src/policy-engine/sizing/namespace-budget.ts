// How the filesystems of a namespace share its budget. What one of them can grow to without asking again is promised to it: its size, the
// target under way, the emergency grant. All promises together stay within the budget, so it holds even if every node spends its grant at
// once. Pure.

import { storageKeyOf } from "../../contracts/kubernetes/resources.ts";
import { decide } from "../decide/decide.ts";
import { type Emergency, emergencyGrant, isGrantUncertain } from "../decide/decide-precautions.ts";
import type { Plan } from "../decide/plan.ts";
import type { Facts, QuotaFacts } from "../facts/facts.ts";
import type { Ceilings } from "../policies/ceilings.ts";
import type { CompiledPolicy } from "../policies/compiled-policy.ts";
import { roundDownToMiB } from "./sizes.ts";

/** What one filesystem has of its namespace's budget, and what it could use: sizes of its members. */
export interface Stake {
  /** Unique; decides between equals. */
  readonly handle: string;
  /** Its size, or the target under way where that is larger. */
  readonly takenBytes: number;
  /** Up to here its node may grow it by itself; 0: it may not. */
  readonly grantedBytes: number;
  /** The size that it would be given or granted if there were no budget. */
  readonly candidateBytes: number;
  /** The higher goes first when the budget is short. */
  readonly urgency: number;
}

/** What a filesystem would be given if there were no budget. */
export interface Candidate extends Pick<Stake, "candidateBytes" | "urgency"> {
  readonly grant: Emergency | undefined;
}

/** A grant stays where it is until another filesystem is fuller by more than this, or it would move to and fro with every sample. */
const STAY_RATIO = 0.05;
/** An unmounted one has no writer: it goes last. */
const NOT_MOUNTED_URGENCY = -1;

/** How large a filesystem may become without another decision. */
export function promisedBytes({ takenBytes, grantedBytes }: Pick<Stake, "takenBytes" | "grantedBytes">): number {
  return Math.max(takenBytes, grantedBytes);
}

/**
 * The size up to which the budget lets a filesystem's grant go. The one nearest to full has its whole candidate before the next one has
 * anything. What is promised to others is not given a second time, even where their share is less: it is free once they have given it back.
 */
export function shareOf(own: Stake, all: Iterable<Stake>, budgetBytes: number): number {
  let othersBytes = 0;
  let othersFairBytes = 0;
  for (const other of all) {
    if (other.handle === own.handle) continue;
    const firstBytes = goesBefore(other, own) ? other.candidateBytes : 0;
    othersBytes += Math.max(promisedBytes(other), firstBytes);
    othersFairBytes += Math.max(other.takenBytes, firstBytes);
  }
  return Math.max(budgetBytes - othersBytes, Math.min(own.grantedBytes, budgetBytes - othersFairBytes));
}

function goesBefore(a: Stake, b: Stake): boolean {
  const [first, second] = [steadyUrgency(a), steadyUrgency(b)];
  return first === second ? a.handle < b.handle : first > second;
}

function steadyUrgency({ urgency, takenBytes, grantedBytes }: Stake): number {
  return grantedBytes > takenBytes ? urgency + STAY_RATIO : urgency;
}

/** Undefined while its facts are uncertain: the last candidate stands, as the grant itself does. */
export function candidateFor(
  facts: Facts,
  policy: CompiledPolicy | undefined,
  ceilings: Ceilings,
  plan: Plan,
): Candidate | undefined {
  const isBudgeted = ceilings.namespaceBytes !== undefined;
  const unbudgeted = isBudgeted ? { ...ceilings, namespaceBytes: undefined } : ceilings;
  const dueBytes = isBudgeted && isCut(plan) ? extendedSize(decide(facts, policy, unbudgeted)) : 0;
  if (dueBytes === 0 && facts.filesystem.mounted && isGrantUncertain(facts)) return undefined;
  const grant = emergencyGrant(facts, policy, unbudgeted);
  const candidateBytes = Math.max(dueBytes, grant?.sizeBytes ?? 0);
  return { grant, candidateBytes, urgency: isBudgeted ? urgencyOf(facts, dueBytes > 0) : Number.POSITIVE_INFINITY };
}

// The budget, or another bound, stands in the way of an extend.
function isCut(plan: Plan): boolean {
  return plan.kind === "extend" ? (plan.uncappedBytes ?? 0) > plan.sizeBytes : plan.reason === "CeilingReached";
}

function extendedSize(plan: Plan): number {
  return plan.kind === "extend" ? plan.sizeBytes : 0;
}

// What is due now goes before any precaution.
function urgencyOf({ filesystem: { mounted, reading } }: Facts, isDue: boolean): number {
  const usedRatio = reading === undefined ? 0 : reading.usedBytes / reading.capacityBytes;
  const fullRatio = Number.isFinite(usedRatio) ? usedRatio : 0;
  if (isDue) return 1 + fullRatio;
  return mounted ? fullRatio : NOT_MOUNTED_URGENCY;
}

/** The grant as far as the budget's share allows; undefined: not at all. */
export function grantWithin(
  grant: Emergency | undefined,
  { filesystem }: Pick<Facts, "filesystem">,
  shareBytes: number,
): Emergency | undefined {
  if (grant === undefined) return undefined;
  const sizeBytes = Math.min(grant.sizeBytes, roundDownToMiB(shareBytes));
  return sizeBytes > filesystem.sizeBytes ? { ...grant, sizeBytes } : undefined;
}

// What a namespace's ResourceQuotas leave to one of its filesystems. Kubernetes counts what claims request, which is what a volume of its
// own driver has. Filesystems of ours may be larger than that, and what they are larger by is counted here. Pure.

/** Of a ResourceQuota, what is read. */
export interface StorageQuota {
  readonly name: string;
  readonly hard: Readonly<Record<string, number>>;
  /** What the namespace's claims request; a key that is not there is not counted yet. */
  readonly used: Readonly<Record<string, number>>;
}

/** By what the other filesystems of a namespace are, or may become, larger than their claims request. */
export interface OverRequests {
  readonly allBytes: number;
  /** Those of the same StorageClass. */
  readonly classBytes: number;
}

/** What the claim requests is its own in any case: it was let in with it. */
export function tightestQuota(
  quotas: readonly StorageQuota[],
  { storageClassName, requestBytes }: { readonly storageClassName: string; readonly requestBytes: number },
  others: OverRequests,
): QuotaFacts | undefined {
  const keys = [
    [storageKeyOf(undefined), others.allBytes],
    [storageKeyOf(storageClassName), others.classBytes],
  ] as const;
  const found = quotas.flatMap(({ name, hard, used }) =>
    keys.flatMap(([key, othersBytes]) => {
      const limitBytes = hard[key];
      if (limitBytes === undefined) return [];
      const leftBytes = limitBytes - (used[key] ?? Number.NaN) - othersBytes;
      // A sum that is not known leaves nothing: a quota is never overrun on a guess.
      return [{ name, key, limitBytes, bytes: requestBytes + (leftBytes > 0 ? leftBytes : 0) }];
    }),
  );
  return found.reduce<QuotaFacts | undefined>(
    (least, one) => (least === undefined || one.bytes < least.bytes ? one : least),
    undefined,
  );
}
