// A target in numbers: one type from the policy-engine's decision to the agent's. Each of its fields is required, and each field that a
// kind has is named here: what reads, writes or passes on a target and forgets one does not compile.
import { printable } from "../printable.ts";
import { formatQuantity, parseQuantity } from "../quantities/quantity.ts";
import type { SizeTarget, WantedTarget } from "./filesystem.ts";

export interface Target {
  readonly sizeBytes: number;
  /** The size at the decision. */
  readonly fromBytes: number;
  /** Of the leader that wrote it. */
  readonly epoch: number;
  /** RFC 3339; names this target. */
  readonly decidedAt: string;
  /** The latest start of a shrink that needs the filesystem unmounted, Unix time; undefined: it never starts. NaN: it cannot be read. */
  readonly notAfterMs: number | undefined;
}

/** As the policy-engine decides it: the operator turns it into targets for a node. */
export interface DecidedTarget extends Target {
  /** The most members that it shall have then; undefined: any. */
  readonly members: number | undefined;
  /** Undefined: it replaces a target that no longer applies. */
  readonly why: TargetReason | undefined;
}

export interface TargetReason {
  /** The deciding policy's key; undefined: no policy selects the claim. */
  readonly policy: string | undefined;
  readonly rule: string | undefined;
  readonly reason: string;
  /** In a sentence with figures. */
  readonly message: string;
}

/** Throws QuantityError. */
export function readTarget({ size, from, epoch, decidedAt, notAfter, ...others }: SizeTarget): Target {
  void (others satisfies Record<string, never>);
  const notAfterMs = notAfter === undefined ? undefined : Date.parse(notAfter);
  return { sizeBytes: parseQuantity(size), fromBytes: parseQuantity(from), epoch, decidedAt, notAfterMs };
}

export function writeTarget({ sizeBytes, fromBytes, notAfterMs, why, ...same }: DecidedTarget): WantedTarget {
  const fields: { readonly [Field in keyof Required<WantedTarget>]: WantedTarget[Field] | undefined } = {
    ...same,
    size: formatQuantity(sizeBytes),
    from: formatQuantity(fromBytes),
    notAfter: notAfterMs === undefined ? undefined : new Date(notAfterMs).toISOString(),
    policy: why?.policy,
    rule: why?.rule,
    reason: why?.reason,
    message: why && printable(why.message),
  };
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as WantedTarget;
}

/** What of a decision a node carries out: all of it but the reason, and the count of members, which the operator plans. */
export function nodeTarget(wanted: WantedTarget): SizeTarget {
  const { policy: _policy, rule: _rule, reason: _reason, message: _message, members: _members, ...target } = wanted;
  return target;
}
