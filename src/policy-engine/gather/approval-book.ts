// The approvals that there are, by namespace and claim: read when they change, found in a moment for each of many volumes. It writes nothing.
import type { ScalingApproval } from "../../contracts/kinds/scaling-approval.ts";
import type { Labels } from "../../contracts/schema/label-selector.ts";
import { type Approval, namesClaim, readApproval } from "../policies/approvals.ts";
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

/** Of one namespace; each volume is compared with all that select by labels. The oldest count. */
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
}

/** `onChange` hears of each change of what a namespace approves, after it is in force. A new status is not one. */
export function createApprovalBook(
  { approvals }: Pick<Caches, "approvals">,
  onChange: (namespace: string) => void,
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
  approvals.subscribe({ added: put, updated: put, deleted: remove });
  return {
    forClaim: (claim) => {
      const known = namespaces.get(claim.namespace);
      if (known === undefined) return NO_APPROVALS;
      known.read ??= readAll(known.objects.values());
      const { byClaim, selecting } = known.read;
      const named = byClaim.get(claim.name) ?? NO_APPROVALS;
      if (selecting.length === 0) return named;
      const selected = selecting.filter(({ spec }) => namesClaim(spec, claim));
      return selected.length === 0 ? named : [...named, ...selected.map(({ approval }) => approval)];
    },
    entries: function* () {
      for (const known of namespaces.values()) yield* (known.read ??= readAll(known.objects.values())).entries;
    },
  };
}

function namespaceOf({ metadata: { namespace } }: ScalingApproval): string {
  return namespace ?? "default";
}

function readAll(objects: Iterable<ScalingApproval>): ReadApprovals {
  const entries = [...objects].sort(byAge).map((object, index): ApprovalEntry => {
    const isIgnored = index >= APPROVALS_LIMIT;
    return { object, approval: readApproval(object), isIgnored };
  });
  const byClaim = new Map<string, Approval[]>();
  const selecting: { spec: ScalingApproval["spec"]; approval: Approval }[] = [];
  for (const { object, approval, isIgnored } of entries) {
    if (approval === undefined || isIgnored) continue;
    if (object.spec.claims === undefined) selecting.push({ spec: object.spec, approval });
    for (const claim of new Set(object.spec.claims)) byClaim.set(claim, [...(byClaim.get(claim) ?? []), approval]);
  }
  return { entries, byClaim, selecting };
}

function byAge({ metadata: a }: ScalingApproval, { metadata: b }: ScalingApproval): number {
  const [first, second] = [a, b].map(({ creationTimestamp }) => Date.parse(creationTimestamp ?? "")) as [
    number,
    number,
  ];
  if (first !== second && !Number.isNaN(first) && !Number.isNaN(second)) return first - second;
  return a.name < b.name ? -1 : 1;
}
