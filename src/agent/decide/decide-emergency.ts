// The emergency: when a filesystem is about to be full, the agent takes by itself what it was granted in advance, so that
// a full disk is averted with engine and API server down. Pure: whether a grant is accepted, and whether it is spent now.

import type { EmergencyGrant, OperationKind } from "../../contracts/kinds/filesystem-layout.ts";
import { EMERGENCY_LIFE_MS, type Grant, readGrant } from "../../contracts/kinds/grant.ts";
import { wholeGiB } from "../../contracts/quantities/quantity.ts";
import type { Instant } from "../../platform/process/clock.ts";
import type { ReadySpare, SpanMemberFacts } from "./decide-operation.ts";

/** When this node read its grant, on the monotonic clock of that boot. */
export interface GrantRead {
  /** Which one: its epoch and expiry. */
  readonly of: string;
  readonly monotonicMs: number;
  /** Of the boot; absent: an agent wrote it that did not say. */
  readonly bootID?: string | undefined;
}

/**
 * What the disk stores with a grant: when this node first read it. Reading the same grant again does not change that time, except after a
 * reboot, when it starts again.
 */
export function grantRead(
  grant: EmergencyGrant | undefined,
  known: GrantRead | undefined,
  monotonicMs: number,
  bootID: string,
): GrantRead | undefined {
  if (grant === undefined) return undefined;
  const of = nameOf(grant);
  return known?.of === of && known.bootID === bootID ? known : { of, monotonicMs, bootID };
}

/**
 * Whether a grant lives: for a day from when it was read, whatever the wall clock shows then or now. Where that is not known, since the
 * machine was booted and the API server not heard yet, its date decides. One that was taken back is gone, however young.
 */
export function isAlive(
  grant: EmergencyGrant,
  known: GrantRead | undefined,
  { nowMs, monotonicMs }: Instant,
  bootID: string,
): boolean {
  const { expiryMs } = readGrant(grant);
  if (expiryMs === 0) return false;
  const isKnown = known?.of === nameOf(grant) && known.bootID === bootID;
  return isKnown ? monotonicMs - known.monotonicMs < EMERGENCY_LIFE_MS : nowMs < expiryMs;
}

function nameOf({ epoch, expiry }: EmergencyGrant): string {
  return `${epoch} ${expiry}`;
}

/** What of a grant the members on this node can give, and which spares that takes. */
export interface ReachableGrant {
  readonly grant: Grant;
  readonly spares: readonly string[];
}

/**
 * Members that are not on this node avert nothing. A spare is taken in as a whole: of several those are taken that are the most together and no
 * larger than the member that would be made for the grant, which has whole GiB.
 */
export function reachableGrant(grant: Grant, sizeBytes: number, members: SpareFacts | undefined): ReachableGrant {
  if (members === undefined) return { grant, spares: [] };
  const { attainableBytes } = members;
  const missingBytes = grant.sizeBytes - Math.max(sizeBytes, attainableBytes);
  const taken = missingBytes > 0 ? fittingSpares(members.spares, wholeGiB(missingBytes)) : [];
  const reachBytes = attainableBytes + sumOf(taken);
  return {
    grant: { ...grant, sizeBytes: Math.min(grant.sizeBytes, reachBytes) },
    spares: taken.map(({ name }) => name),
  };
}

type SpareFacts = Pick<SpanMemberFacts, "attainableBytes" | "spares">;

/** One that waits to take others' place is taken where no plain one can be: the replacement is over then. */
function fittingSpares(spares: readonly ReadySpare[], mostBytes: number): readonly ReadySpare[] {
  const plain = largestWithin(
    spares.filter(({ replaces }) => !replaces),
    mostBytes,
  );
  return plain.length > 0 ? plain : largestWithin(spares, mostBytes);
}

/** Of sets that are as large that of the fewest, then that of those that came first. */
function largestWithin(spares: readonly ReadySpare[], mostBytes: number): readonly ReadySpare[] {
  const sets = spares.reduce<(readonly ReadySpare[])[]>(
    (all, one) => [...all, ...all.map((set) => [...set, one])],
    [[]],
  );
  return sets
    .filter((set) => sumOf(set) <= mostBytes)
    .reduce((best, set) => {
      const isLarger = sumOf(set) > sumOf(best);
      return isLarger || (sumOf(set) === sumOf(best) && set.length < best.length) ? set : best;
    }, []);
}

function sumOf(spares: readonly ReadySpare[]): number {
  return spares.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0);
}

export interface EmergencyFacts {
  readonly monotonicMs: number;
  readonly sizeBytes: number;
  readonly capacityBytes: number;
  readonly availableBytes: number;
  /** An operation failed after the member had grown: its filesystem is smaller still. */
  readonly memberAhead: boolean;
  readonly grant: Grant | undefined;
  /** isAlive says so. */
  readonly alive: boolean;
  readonly running: OperationKind | undefined;
  /** Not before this after one that failed, on the monotonic clock. */
  readonly retryMs: number;
}

/** True: grow to the grant's size now, cancelling a running shrink first. */
export function shouldSpendGrant(facts: EmergencyFacts): boolean {
  const { grant } = facts;
  if (grant === undefined || !facts.alive || facts.monotonicMs < facts.retryMs) return false;
  if (!givesMore(grant, facts) || facts.running === "Extend") return false;
  return isPlausible(facts) && facts.availableBytes < grant.minAvailableBytes;
}

/** One whose extend failed half-way is spent again: the member has its size, the filesystem has not. */
function givesMore({ sizeBytes }: Grant, facts: EmergencyFacts): boolean {
  return sizeBytes > facts.sizeBytes || (sizeBytes === facts.sizeBytes && facts.memberAhead);
}

// Nonsense never changes a size.
function isPlausible({ capacityBytes, availableBytes }: EmergencyFacts): boolean {
  return capacityBytes > 0 && availableBytes >= 0 && availableBytes <= capacityBytes;
}

/**
 * The grant that stays when the layout carries `offered`. A grant written by a deposed leader is refused, and the present one stays. The
 * present one also stays valid under a newer epoch until it is replaced, withdrawn or expires.
 */
export function acceptedGrant(
  kept: EmergencyGrant | undefined,
  offered: EmergencyGrant | undefined,
  highestEpoch: number,
): EmergencyGrant | undefined {
  if (offered === undefined) return undefined;
  return offered.epoch < highestEpoch ? kept : offered;
}
