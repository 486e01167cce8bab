// How large and how small a filesystem may become: limits, ceilings, budgets and the space there is. Bounds are sizes of the
// member devices; nothing ever changes a size beyond them.
import type { HoldReason } from "../api/reasons.ts";
import { formatBytes } from "../units/quantity.ts";
import type { Question } from "./question.ts";

export interface UpperBound {
  readonly bytes: number;
  /** What a volume at this bound is told. */
  readonly reason: Extract<HoldReason, "AtMaximum" | "CeilingReached">;
  /** Completes "capped by …". */
  readonly text: string;
}

/** With no ceiling in the cluster, and for a policy without a max. */
const DEFAULT_MAX_FACTOR = 10;

/** The lowest of all upper bounds. */
export function upperBound(question: Question): UpperBound {
  const [first, ...rest] = upperBounds(question);
  return rest.reduce((lowest, bound) => (bound.bytes < lowest.bytes ? bound : lowest), first);
}

function upperBounds({ facts, policy, ceilings }: Question): [UpperBound, ...UpperBound[]] {
  const { claim, filesystem, node } = facts;
  const bounds: [UpperBound, ...UpperBound[]] = [limitOrDefault(policy?.limits.maxBytes, claim.nominalBytes)];
  if (ceilings.maxBytes !== undefined)
    bounds.push(ceiling(ceilings.maxBytes.value, `the ceiling of ClusterVolumePolicy ${ceilings.maxBytes.policy}`));
  else if (policy?.scope === "Namespaced") bounds.push(limitOrDefault(undefined, claim.nominalBytes));
  if (ceilings.namespaceBytes !== undefined) {
    const { value, policy: name } = ceilings.namespaceBytes;
    const budget = `the budget of ${formatBytes(value)} for namespace ${claim.namespace}, ClusterVolumePolicy ${name}`;
    bounds.push(ceiling(filesystem.sizeBytes + budgetLeft(value, facts.namespaceBytes), budget));
  }
  if (claim.classMaxBytes !== undefined)
    bounds.push(maximum(claim.classMaxBytes, `maxSize of StorageClass ${claim.storageClassName}`));
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
