// A policy as decisions use it: sizes in bytes, times in milliseconds, expressions compiled. Made by compilePolicy; nothing
// here reads YAML or refuses anything.
import type { ClaimBackend, Mode } from "../../api/volume-policy.ts";
import type { Expression } from "../cel/expression.ts";
import type { HoldPlan } from "../decide/plan.ts";
import type { MaintenanceWindow } from "./maintenance-window.ts";
import type { PolicySize } from "./policy-budget.ts";
import type { PolicySelection } from "./policy-selection.ts";

export interface CompiledPolicy {
  /** "namespace/name" of a VolumePolicy, "name" of a ClusterVolumePolicy. */
  readonly key: string;
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
  readonly limits: SizeLimits;
  readonly rules: readonly CompiledRule[];
  readonly extend: Pace;
  readonly shrink: Pace;
  readonly onStaleMetrics: "Hold" | "ExtendOnly";
  /** How often its volumes give unused blocks back, as it is written; undefined: never by time. */
  readonly trimEvery: string | undefined;
  /** Whether it opts ordinary claims in: those that another driver provides. */
  readonly claimBackend: ClaimBackend;
  /** What most volumes are told most of the time: made once, so that holding still costs nothing. */
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

export interface CompiledRule {
  readonly name: string;
  readonly action: "Extend" | "Shrink";
  readonly when: Expression<boolean>;
  readonly size: RuleSize;
  readonly forMs: number;
  readonly message: Expression<string> | undefined;
  /** The longest window that `when` looks at; 0 when it looks at this instant only. */
  readonly windowMs: number;
  /** Names the rule's timer; changes with its condition, so that an edited rule starts anew. */
  readonly timerKey: string;
}

/** What a rule changes the size to. */
export type RuleSize =
  | { readonly kind: "targetUsed"; readonly ratio: number }
  | { readonly kind: "byRatio"; readonly ratio: number }
  | { readonly kind: "byBytes"; readonly bytes: number }
  | { readonly kind: "to"; readonly bytes: number }
  | { readonly kind: "toExpression"; readonly expression: Expression<number> };

/** One thing wrong with a policy, where it is, and what to do about it. */
export interface PolicyProblem {
  /** Such as "spec.rules[0].when". */
  readonly field: string;
  readonly message: string;
  readonly hint?: string;
  /** Where in a CEL expression; both count from 1. */
  readonly line?: number;
  readonly column?: number;
}
