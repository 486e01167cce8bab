// The size that a rule asks for, and the bounds that it is put into: limits, ceilings, budgets, quotas, the space there is, and what must
// stay available. Both are sizes of the member devices; nothing changes a size beyond its bounds.
import { reserveBytes as reserveOf } from "../../contracts/formulas/reserve.ts";
import { formatBytes, MIB } from "../../contracts/quantities/quantity.ts";
import type { HoldReason } from "../../contracts/reasons.ts";
import type { HoldPlan } from "../decide/plan.ts";
import type { Question } from "../decide/question.ts";
import type { RuleFailure } from "../decide/rule-round.ts";
import type { ClaimFacts, Facts, FilesystemFacts } from "../facts/facts.ts";
import type { Ceiling, Ceilings } from "../policies/ceilings.ts";
import type { CompiledPolicy, CompiledRule, SizeLimits } from "../policies/compiled-policy.ts";

export interface UpperBound {
  readonly bytes: number;
  /** The reason of a volume's hold at this bound. */
  readonly reason: Extract<HoldReason, "AtMaximum" | "CeilingReached">;
  /** Completes "capped by …". */
  readonly text: string;
}

/** With no ceiling in the cluster, and for a policy without a max. */
export const DEFAULT_MAX_FACTOR = 10;

type Bounds = [UpperBound, ...UpperBound[]];

/** The lowest of all upper bounds. */
export function upperBound(question: Question): UpperBound {
  return lowest([...writtenBounds(question), ...measuredBounds(question)]);
}

/** The lowest of those that people wrote down: it holds whatever is measured, and when nothing is. */
export function writtenBound(question: Question): UpperBound {
  return lowest(writtenBounds(question));
}

/** The most that a volume may have by what people wrote down, in bytes, whatever room there is. */
export function reachBytes(claim: ClaimFacts, policy: CompiledPolicy, ceilings: Ceilings): number {
  return lowest(writtenBounds({ facts: { claim }, policy, ceilings })).bytes;
}

/** Where a volume stops short of limits.max, since no ceiling stands over it, in bytes; undefined: it does not. */
export function cappedByRequest(claim: ClaimFacts, policy: CompiledPolicy, ceilings: Ceilings): number | undefined {
  if (policy.scope === "Cluster" || ceilings.maxBytes !== undefined) return undefined;
  const cappedBytes = DEFAULT_MAX_FACTOR * claim.nominalBytes;
  const writtenBytes = Math.min(policy.limits.maxBytes ?? 0, claim.classMaxBytes ?? Number.POSITIVE_INFINITY);
  return writtenBytes > cappedBytes ? cappedBytes : undefined;
}

export function lowest([first, ...rest]: Bounds): UpperBound {
  return rest.reduce((least, bound) => (bound.bytes < least.bytes ? bound : least), first);
}

interface Written extends Pick<Question, "policy" | "ceilings"> {
  readonly facts: Pick<Facts, "claim">;
}

function writtenBounds({ facts: { claim }, policy, ceilings }: Written): Bounds {
  const bounds: Bounds = [limitOrDefault(policy?.limits.maxBytes, claim.nominalBytes)];
  if (ceilings.maxBytes !== undefined)
    bounds.push(ceiling(ceilings.maxBytes.value, `the ceiling of ClusterVolumePolicy ${ceilings.maxBytes.policy}`));
  else if (policy?.scope === "Namespaced") bounds.push(limitOrDefault(undefined, claim.nominalBytes));
  if (claim.classMaxBytes !== undefined)
    bounds.push(maximum(claim.classMaxBytes, `maxSize of StorageClass ${claim.storageClassName}`));
  return bounds;
}

function measuredBounds({ facts, ceilings }: Question): UpperBound[] {
  const { filesystem, node } = facts;
  const bounds: UpperBound[] = [];
  if (ceilings.namespaceBytes !== undefined) {
    const leftBytes = budgetLeft(ceilings.namespaceBytes.value, facts.namespaceBytes);
    bounds.push(ceiling(filesystem.sizeBytes + leftBytes, describeBudget(facts, ceilings.namespaceBytes)));
  }
  if (facts.quota !== undefined) {
    const { name, key, limitBytes, bytes } = facts.quota;
    bounds.push(maximum(bytes, `what ResourceQuota ${name} leaves of ${formatBytes(limitBytes)} ${key}`));
  }
  if (node !== undefined)
    bounds.push(maximum(filesystem.sizeBytes + node.freeBytes, `the free space of node ${node.name}`));
  return bounds;
}

function limitOrDefault(maxBytes: number | undefined, nominalBytes: number): UpperBound {
  if (maxBytes !== undefined) return maximum(maxBytes, "limits.max");
  return maximum(
    DEFAULT_MAX_FACTOR * nominalBytes,
    `${DEFAULT_MAX_FACTOR} × the claim's request, as no ClusterVolumePolicy sets ceilings.max`,
  );
}

// A sum that is not known leaves nothing: a budget is never overrun on a guess.
function budgetLeft(budgetBytes: number, namespaceBytes: number): number {
  const leftBytes = budgetBytes - namespaceBytes;
  return leftBytes >= 0 ? leftBytes : 0;
}

function describeBudget({ filesystem, namespaceBytes }: Facts, { value, policy }: Ceiling<number>): string {
  const budget = `namespace budget ${formatBytes(value)} of ClusterVolumePolicy ${policy}`;
  const othersBytes = namespaceBytes - filesystem.sizeBytes;
  if (!(Number.isSafeInteger(othersBytes) && othersBytes > 0)) return budget;
  return `${budget}, other volumes take ${formatBytes(othersBytes)}`;
}

function maximum(bytes: number, text: string): UpperBound {
  return { bytes, reason: "AtMaximum", text: `${text} (${formatBytes(bytes)})` };
}

function ceiling(bytes: number, text: string): UpperBound {
  return { bytes, reason: "CeilingReached", text: `${text} (${formatBytes(bytes)})` };
}

/** The smallest size that a user wrote down: limits.min, else the class' initialSize, else the request. */
export function lowerBound({ facts, policy }: Question): number {
  return policy?.limits.minBytes ?? facts.claim.initialSizeBytes;
}

/** Who wrote the lower bound down, and how large it is: completes "at …". */
export function describeLowerBound(question: Question): string {
  return `${lowerBoundName(question)} (${formatBytes(lowerBound(question))})`;
}

function lowerBoundName({ facts, policy }: Question): string {
  const { initialSizeBytes, nominalBytes, storageClassName } = facts.claim;
  if (policy?.limits.minBytes !== undefined) return "limits.min";
  return initialSizeBytes < nominalBytes ? `initialSize of StorageClass ${storageClassName}` : "the claim's request";
}

/** Why no size of this claim may be changed at all, by the ceilings on classes; undefined: it may. */
export function forbiddenClass({ facts, ceilings }: Question): string | undefined {
  const { storageClassName } = facts.claim;
  const by = ceilings.storageClassNames.find((ceiling) => !ceiling.value.has(storageClassName));
  return by && `ClusterVolumePolicy ${by.policy} allows no changes of class ${storageClassName}`;
}

const DEFAULT_CAPACITY_RATIO = 0.05;
const DEFAULT_GROWTH_SECONDS = 5;
const MAX_CAPACITY_RATIO = 0.2;

/** The available bytes whose crossing is itself an Extend: as written, else 5% of capacity or 5 s of growth, at most 20%. */
export function minAvailableBytes(limits: SizeLimits, capacityBytes: number, growthBytesPerSecond = 0): number {
  if (limits.minAvailableBytes !== undefined) return limits.minAvailableBytes;
  const wanted = Math.max(DEFAULT_CAPACITY_RATIO * capacityBytes, DEFAULT_GROWTH_SECONDS * growthBytesPerSecond);
  return Math.ceil(Math.min(wanted, MAX_CAPACITY_RATIO * capacityBytes));
}

/** What a shrink always leaves available. Counts minAvailable at the present capacity, as the agent's watcher does. */
export function reserveBytes(limits: SizeLimits, capacityBytes: number, { reading }: FilesystemFacts): number {
  const leastBytes = minAvailableBytes(limits, capacityBytes, reading?.growthBytesPerSecond);
  return reserveOf(leastBytes, reading?.peakWriteBytesPerSecond ?? 0);
}

// From the size that a rule asks for to one of the member devices. Ratios come from the filesystem's capacity, sizes are the devices': ext4
// and xfs keep some of them for themselves.

/** The next whole MiB: sizes are rounded up, for a shrink too, since larger is safer. */
export function roundUpToMiB(bytes: number): number {
  return Math.ceil(bytes / MIB) * MIB;
}

export function roundDownToMiB(bytes: number): number {
  return Math.floor(bytes / MIB) * MIB;
}

/** The size of the members on which the filesystem has this capacity. */
export function sizeForCapacity({ facts }: Question, capacityBytes: number): number {
  const { sizeBytes, reading } = facts.filesystem;
  return reading === undefined ? capacityBytes : Math.ceil(capacityBytes * (sizeBytes / reading.capacityBytes));
}

/** The size that a rule asks for, with this much used, before any limit. Bytes, or why its expression has no value. */
export function candidateSize(question: Question, rule: CompiledRule, usedBytes: number): number | RuleFailure {
  const { sizeBytes } = question.facts.filesystem;
  const sign = rule.action === "Extend" ? 1 : -1;
  const { size } = rule;
  switch (size.kind) {
    case "targetUsed":
      return sizeForCapacity(question, usedBytes / size.ratio);
    case "byRatio":
      return sizeBytes * (1 + sign * size.ratio);
    case "byBytes":
      return Math.max(0, sizeBytes + sign * size.bytes);
    case "to":
      return size.bytes;
    case "toExpression": {
      const result = size.expression.evaluate(question.scope);
      return result.ok ? result.value : { rule, kind: result.kind, message: result.message };
    }
  }
}

/** Whether the rule names a size (and is content at it), rather than a difference or a ratio. */
export function namesSize(rule: CompiledRule): boolean {
  return rule.size.kind === "to" || rule.size.kind === "toExpression";
}

/** A rule that fails holds the volume: a failed Extend rule might have held, and a failed Shrink rule might not. */
export function holdForFailure(question: Question, { rule, kind, message }: RuleFailure): HoldPlan {
  return question.hold(kind, `${rule.name}: ${message}`, { rule: rule.name });
}
