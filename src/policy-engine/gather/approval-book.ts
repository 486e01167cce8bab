// The approvals that there are, by namespace and claim: read when they change, found in a moment for each of many volumes. It writes nothing.
import type { ScalingApproval } from "../../contracts/kinds/scaling-approval.ts";
import type { Labels } from "../../contracts/schema/label-selector.ts";
import { type Approval, isOver, namesClaim, readApproval } from "../policies/approvals.ts";
import type { Caches } from "./caches.ts";

/** The part of a claim by which approvals name it. */
export interface ApprovableClaim {
  readonly namespace: string;
  readonly name: string;
  readonly labels: Labels;
}

export interface ApprovalEntry {
  readonly object: ScalingApproval;
  /** Undefined: it cannot be read. */
  readonly approval: Approval | undefined;
  /** It is one too many of its namespace, and approves nothing. */
  readonly isIgnored: boolean;
}

export interface ApprovalBook {
  /** Those that name the claim, over or not. Shared where there are none: they cost nothing then. */
  forClaim(claim: ApprovableClaim): readonly Approval[];
  entries(): Iterable<ApprovalEntry>;
}

/** Of one namespace; each volume is compared with all that select by labels. The oldest of those that approve something count. */
export const APPROVALS_LIMIT = 128;

const NO_APPROVALS: readonly Approval[] = [];

interface NamespaceApprovals {
  readonly objects: Map<string, ScalingApproval>;
  /** Undefined after a change. */
  read: ReadApprovals | undefined;
}

interface ReadApprovals {
  readonly entries: readonly ApprovalEntry[];
  readonly byClaim: ReadonlyMap<string, readonly Approval[]>;
  readonly selecting: readonly { readonly spec: ScalingApproval["spec"]; readonly approval: Approval }[];
  /** Of selecting, by the labels of a claim: the objects, which caches replace when they change. */
  readonly selected: WeakMap<Labels, readonly Approval[]>;
  /** Which ones count is said for this time: until the first of them is over. */
  readonly fromMs: number;
  readonly untilMs: number;
}

/** `onChange` hears of each change of what a namespace approves, after it is in force. A new status is not one. */
export function createApprovalBook(
  { approvals }: Pick<Caches, "approvals">,
  onChange: (namespace: string) => void,
  nowMs: () => number,
): ApprovalBook {
  const namespaces = new Map<string, NamespaceApprovals>();
  const put = (object: ScalingApproval): void => {
    const namespace = namespaceOf(object);
    const known = namespaces.get(namespace) ?? { objects: new Map<string, ScalingApproval>(), read: undefined };
    const before = known.objects.get(object.metadata.name)?.metadata;
    namespaces.set(namespace, known);
    known.objects.set(object.metadata.name, object);
    known.read = undefined;
    const { uid, generation } = object.metadata;
    if (before === undefined || before.uid !== uid || before.generation !== generation) onChange(namespace);
  };
  const remove = (object: ScalingApproval): void => {
    const namespace = namespaceOf(object);
    const known = namespaces.get(namespace);
    if (known?.objects.delete(object.metadata.name) !== true) return;
    known.read = undefined;
    if (known.objects.size === 0) namespaces.delete(namespace);
    onChange(namespace);
  };
  const readOf = (known: NamespaceApprovals): ReadApprovals => {
    const isMany = known.objects.size > APPROVALS_LIMIT;
    const { read } = known;
    if (read !== undefined && !(isMany && isOutdated(read, nowMs()))) return read;
    return (known.read = readAll(known.objects.values(), nowMs()));
  };
  approvals.subscribe({ added: put, updated: put, deleted: remove });
  return {
    forClaim: (claim) => {
      const known = namespaces.get(claim.namespace);
      if (known === undefined) return NO_APPROVALS;
      const read = readOf(known);
      const named = read.byClaim.get(claim.name) ?? NO_APPROVALS;
      if (read.selecting.length === 0) return named;
      const selected = selectedOf(read, claim);
      return selected.length === 0 ? named : [...named, ...selected];
    },
    entries: function* () {
      for (const known of namespaces.values()) yield* readOf(known).entries;
    },
  };
}

function namespaceOf({ metadata: { namespace } }: ScalingApproval): string {
  return namespace ?? "default";
}

/** Compared once: a hundred long selectors cost a millisecond, which each decision would spend. */
function selectedOf({ selecting, selected }: ReadApprovals, claim: ApprovableClaim): readonly Approval[] {
  const known = selected.get(claim.labels);
  if (known !== undefined) return known;
  const found = selecting.filter(({ spec }) => namesClaim(spec, claim)).map(({ approval }) => approval);
  selected.set(claim.labels, found);
  return found;
}

/** The clock may have been set back as well. */
function isOutdated({ fromMs, untilMs }: ReadApprovals, nowMs: number): boolean {
  return nowMs < fromMs || nowMs >= untilMs;
}

function readAll(objects: Iterable<ScalingApproval>, nowMs: number): ReadApprovals {
  const all = [...objects].sort(byAge).map((object) => ({ object, approval: readApproval(object) }));
  const approves = ({ approval }: Pick<ApprovalEntry, "approval">): boolean =>
    approval !== undefined && !isOver(approval, nowMs);
  const inForce = all.filter(approves);
  const entries = [...inForce, ...all.filter((one) => !approves(one))].map(
    (one, index): ApprovalEntry => ({ ...one, isIgnored: index >= APPROVALS_LIMIT }),
  );
  const untilMs = inForce.reduce((first, { approval }) => Math.min(first, approval?.notAfterMs ?? first), Infinity);
  const byClaim = new Map<string, Approval[]>();
  const selecting: { spec: ScalingApproval["spec"]; approval: Approval }[] = [];
  for (const { object, approval, isIgnored } of entries) {
    if (approval === undefined || isIgnored) continue;
    if (object.spec.claims === undefined) selecting.push({ spec: object.spec, approval });
    for (const claim of new Set(object.spec.claims)) byClaim.set(claim, [...(byClaim.get(claim) ?? []), approval]);
  }
  return { entries, byClaim, selecting, selected: new WeakMap(), fromMs: nowMs, untilMs };
}

function byAge({ metadata: a }: ScalingApproval, { metadata: b }: ScalingApproval): number {
  const [first, second] = [a, b].map(({ creationTimestamp }) => Date.parse(creationTimestamp ?? "")) as [
    number,
    number,
  ];
  if (first !== second && !Number.isNaN(first) && !Number.isNaN(second)) return first - second;
  return a.name < b.name ? -1 : 1;
}
