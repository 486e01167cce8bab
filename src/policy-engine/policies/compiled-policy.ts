// A policy as decisions use it: sizes in bytes, times in milliseconds, expressions compiled, and which claims it selects. compilePolicy
// makes it; nothing here reads YAML or refuses anything.
import type { OperationKind } from "../../contracts/kinds/filesystem-layout.ts";
import type { Mode } from "../../contracts/kinds/policy-ceilings.ts";
import type { ClaimBackend } from "../../contracts/kinds/volume-policy.ts";
import { type Labels, matchesSelector } from "../../contracts/schema/label-selector.ts";
import type { LabelSelector } from "../../contracts/schema/schema.ts";
import type { Expression } from "../cel/expression.ts";
import type { HoldPlan } from "../decide/plan.ts";
import type { MaintenanceWindow } from "./maintenance-window.ts";

export interface CompiledPolicy {
  /** "namespace/name" of a VolumePolicy, "name" of a ClusterVolumePolicy. */
  readonly key: string;
  /** Of its object: another one is another policy. */
  readonly generation: number | undefined;
  readonly scope: "Namespaced" | "Cluster";
  readonly selection: PolicySelection;
  readonly suspended: boolean;
  /** Whether it decides the claims that it selects. A cluster's policy without rules does not: it only carries ceilings. */
  readonly decides: boolean;
  /** Why it is invalid; empty for a valid one. An invalid policy has no rules, and still wins its volumes. */
  readonly problems: readonly PolicyProblem[];
  /** Whether crossing minAvailable extends: false only where an invalid policy's limits or mode cannot be read. */
  readonly guardsMinAvailable: boolean;
  readonly mode: { readonly extend: Mode; readonly shrink: Mode };
  /** Extends to more need an approval, whatever their mode; undefined: their mode alone decides. */
  readonly approveAboveBytes: number | undefined;
  /** Whether what is nearly full grows without the approval that it would need otherwise. */
  readonly growsInEmergencies: boolean;
  readonly limits: SizeLimits;
  readonly rules: readonly CompiledRule[];
  /** Of a policy that was invalidated at run time: the rules it had. They decide nothing, but what they began is theirs. */
  readonly formerRules?: readonly CompiledRule[];
  /** The times over which its rules read growth, milliseconds; empty: they read none. */
  readonly growthWindowsMs: readonly number[];
  readonly extend: Pace;
  readonly shrink: ShrinkPace;
  readonly onStaleMetrics: "Hold" | "ExtendOnly";
  /** How often its volumes give unused blocks back, as it is written; undefined: never by time. */
  readonly trimEvery: string | undefined;
  /** Whether it opts ordinary claims in: those that another driver provides. */
  readonly claimBackend: ClaimBackend;
  /** The plan of most volumes at most times: made once, so that holding still costs nothing. */
  readonly withinBounds: HoldPlan;
  /** What it takes of its namespace's budget. */
  readonly size: PolicySize;
}

export interface SizeLimits {
  readonly minBytes: number | undefined;
  readonly maxBytes: number | undefined;
  readonly minAvailableBytes: number | undefined;
}

/** How fast one direction may go. */
export interface Pace {
  readonly cooldownMs: number;
  readonly minStepBytes: number;
  readonly maxStepBytes: number;
  readonly maxPerDay: number | undefined;
  /** Empty: always open. */
  readonly windows: readonly MaintenanceWindow[];
}

export interface ShrinkPace extends Pace {
  /** Nothing is made smaller than the peak of this time needs; 0: than what is used at this instant. */
  readonly stabilizationMs: number;
}

export interface CompiledRule {
  readonly name: string;
  readonly action: OperationKind;
  readonly when: Expression<boolean>;
  readonly size: RuleSize;
  readonly forMs: number;
  /** Undefined: its policy's mode of its direction. */
  readonly mode: Mode | undefined;
  readonly message: Expression<string> | undefined;
  /** The longest window that `when` looks at; 0 when it looks at this instant only. */
  readonly windowMs: number;
  /** Names the rule's timer; changes with its condition, so that an edited rule starts from 0. */
  readonly timerKey: string;
}

/** What a rule changes the size to. */
export type RuleSize =
  | { readonly kind: "targetUsed"; readonly ratio: number }
  | { readonly kind: "byRatio"; readonly ratio: number }
  | { readonly kind: "byBytes"; readonly bytes: number }
  | { readonly kind: "to"; readonly bytes: number }
  | { readonly kind: "toExpression"; readonly expression: Expression<number> };

/** What a policy takes of its namespace's budget. */
export interface PolicySize {
  /** As `policyChars` counts them. */
  readonly chars: number;
  /** Ranges of characters that its patterns hold. */
  readonly ranges: number;
}

export interface PolicyProblem {
  /** Such as "spec.rules[0].when". */
  readonly field: string;
  readonly message: string;
  readonly hint?: string;
  /** Where in a CEL expression; both count from 1. */
  readonly line?: number;
  readonly column?: number;
}

/** "spec.rules[0].when:1:8: volume has no field usedratio (did you mean usedRatio?)". */
export function problemText({ field, line, column, message, hint }: PolicyProblem): string {
  const position = line === undefined ? "" : `:${line}:${column}`;
  return `${field}${position}: ${message}${hint === undefined ? "" : ` (${hint})`}`;
}

/** A policy's selecting half: the namespaced kind has a namespace, the cluster's a namespaceSelector. */
export interface PolicySelection {
  readonly namespace: string | undefined;
  readonly namespaceSelector: LabelSelector | undefined;
  readonly selector: LabelSelector | undefined;
  /** Undefined: every class. */
  readonly storageClassNames: ReadonlySet<string> | undefined;
  readonly priority: number;
  readonly createdAtMs: number;
}

/** The part of a claim that selection looks at. */
export interface SelectableClaim {
  readonly namespace: string;
  readonly labels: Labels;
  readonly storageClassName: string;
}

/** Whether the selection covers a claim. A namespaced policy never reaches beyond its own namespace. */
export function selectsClaim(selection: PolicySelection, claim: SelectableClaim, namespaceLabels: Labels): boolean {
  if (selection.namespace !== undefined && selection.namespace !== claim.namespace) return false;
  if (selection.storageClassNames?.has(claim.storageClassName) === false) return false;
  if (!matchesSelector(selection.namespaceSelector, namespaceLabels)) return false;
  return matchesSelector(selection.selector, claim.labels);
}
