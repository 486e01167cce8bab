// How the filesystems of a namespace share its budget. What one of them can grow to without asking again is promised to it: its
// size, the target under way, the emergency grant. All promises together stay within the budget, so it holds even if every node
// spends its grant while nobody watches. Pure.

import { decide } from "../decide/decide.ts";
import { type Emergency, emergencyGrant, isGrantInDoubt } from "../decide/emergency-grant.ts";
import type { Plan } from "../decide/plan.ts";
import type { Facts } from "../facts/facts.ts";
import type { Ceilings } from "../policies/ceilings.ts";
import type { CompiledPolicy } from "../policies/compiled-policy.ts";
import { roundDownToMiB } from "./resizing.ts";

/** What one filesystem has of its namespace's budget, and what it could use: sizes of its members. */
export interface Stake {
  /** Unique; decides between equals. */
  readonly handle: string;
  /** Its size, or the target under way where that is larger. */
  readonly takenBytes: number;
  /** Up to here its node may grow it by itself; 0: it may not. */
  readonly grantedBytes: number;
  /** The size that it would be given or granted if there were no budget. */
  readonly wishedBytes: number;
  /** The higher goes first when the budget is short. */
  readonly urgency: number;
}

/** What a filesystem would be given if there were no budget. */
export interface Wish extends Pick<Stake, "wishedBytes" | "urgency"> {
  readonly grant: Emergency | undefined;
}

/** A grant stays where it is until another filesystem is fuller by more than this, or it would move to and fro with every sample. */
const STAY_RATIO = 0.05;
/** Nobody writes to what is not mounted: it goes last. */
const NOT_MOUNTED_URGENCY = -1;

/** How large a filesystem may become without anybody being asked again. */
export function promisedBytes({ takenBytes, grantedBytes }: Pick<Stake, "takenBytes" | "grantedBytes">): number {
  return Math.max(takenBytes, grantedBytes);
}

/**
 * The size up to which the budget lets a filesystem's grant go. Whoever is nearest to full has its whole wish before the next
 * one has anything. What is promised to others is not given a second time, even where their share is less: it is free once they
 * have given it back.
 */
export function shareOf(own: Stake, all: Iterable<Stake>, budgetBytes: number): number {
  let othersBytes = 0;
  let othersFairBytes = 0;
  for (const other of all) {
    if (other.handle === own.handle) continue;
    const firstBytes = goesBefore(other, own) ? other.wishedBytes : 0;
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

/** Undefined while its facts are in doubt: the last wish stands, as the grant itself does. */
export function wishFor(
  facts: Facts,
  policy: CompiledPolicy | undefined,
  ceilings: Ceilings,
  plan: Plan,
): Wish | undefined {
  const isBudgeted = ceilings.namespaceBytes !== undefined;
  const unbudgeted = isBudgeted ? { ...ceilings, namespaceBytes: undefined } : ceilings;
  const dueBytes = isBudgeted && isCut(plan) ? extendedSize(decide(facts, policy, unbudgeted)) : 0;
  if (dueBytes === 0 && facts.filesystem.mounted && isGrantInDoubt(facts)) return undefined;
  const grant = emergencyGrant(facts, policy, unbudgeted);
  const wishedBytes = Math.max(dueBytes, grant?.sizeBytes ?? 0);
  return { grant, wishedBytes, urgency: isBudgeted ? urgencyOf(facts, dueBytes > 0) : Number.POSITIVE_INFINITY };
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
