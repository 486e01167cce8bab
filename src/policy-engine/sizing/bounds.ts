// How large and how small a filesystem may become: limits, ceilings, budgets, quotas and the space there is. Bounds are sizes of the
// member devices; nothing ever changes a size beyond them.
import type { HoldReason } from "../../api/reasons.ts";
import { formatBytes } from "../../units/quantity.ts";
import type { Question } from "../decide/question.ts";
import type { ClaimFacts, Facts } from "../facts/facts.ts";
import type { Ceiling, Ceilings } from "../policies/ceilings.ts";
import type { CompiledPolicy } from "../policies/compiled-policy.ts";

export interface UpperBound {
  readonly bytes: number;
  /** What a volume at this bound is told. */
  readonly reason: Extract<HoldReason, "AtMaximum" | "CeilingReached">;
  /** Completes "capped by …". */
  readonly text: string;
}

/** With no ceiling in the cluster, and for a policy without a max. */
const DEFAULT_MAX_FACTOR = 10;

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

function lowest([first, ...rest]: Bounds): UpperBound {
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

function describeBudget({ claim, filesystem, namespaceBytes }: Facts, { value, policy }: Ceiling<number>): string {
  const budget = `the budget of ${formatBytes(value)} for namespace ${claim.namespace}, ClusterVolumePolicy ${policy}`;
  const othersBytes = namespaceBytes - filesystem.sizeBytes;
  if (!(Number.isSafeInteger(othersBytes) && othersBytes > 0)) return budget;
  return `${budget}, of which ${formatBytes(othersBytes)} are its other volumes' sizes, targets and emergency grants`;
}

function maximum(bytes: number, text: string): UpperBound {
  return { bytes, reason: "AtMaximum", text: `${text} (${formatBytes(bytes)})` };
}

function ceiling(bytes: number, text: string): UpperBound {
  return { bytes, reason: "CeilingReached", text: `${text} (${formatBytes(bytes)})` };
}

/** The smallest size that somebody wrote down: limits.min, else the class' initialSize, else the request. */
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
