// From a policy as people wrote it to one that decides, or to every problem it has, each with its field, its place and a hint. Total:
// nothing that a user can write throws here. A policy with problems is compiled all the same, without rules: it wins its volumes and holds
// them.
import * as z from "zod";
import type { ShrinkBehavior, StepBehavior } from "../../contracts/kinds/policy-behavior.ts";
import { TRIM_EVERY_MAX, TRIM_EVERY_MIN } from "../../contracts/kinds/trim.ts";
import {
  type ClusterVolumePolicy,
  type ClusterVolumePolicySpec,
  clusterVolumePolicySpec,
  DEFAULT_MODES,
  type VolumePolicy,
  volumePolicySpec,
} from "../../contracts/kinds/volume-policy.ts";
import { formatDuration, parseDuration } from "../../contracts/quantities/duration.ts";
import { GIB } from "../../contracts/quantities/quantity.ts";
import { compileVariables, growthWindowsOf, type Variables } from "../cel/expression.ts";
import { createPatternCache, type PatternCache, PolicyPatterns } from "../cel/functions/patterns.ts";
import { MAX_POLICY_CHARS, MAX_WINDOW_MS } from "../cel/limits.ts";
import type { Direction, HoldPlan } from "../decide/plan.ts";
import { compileRules, expressionsOf } from "./compile-rules.ts";
import type {
  CompiledPolicy,
  Pace,
  PolicyProblem,
  PolicySelection,
  ShrinkPace,
  SizeLimits,
} from "./compiled-policy.ts";
import { FieldReader } from "./field-reader.ts";
import { createMaintenanceWindow, type MaintenanceWindow, MaintenanceWindowError } from "./maintenance-window.ts";
import { expressionChars, policyChars } from "./policy-budget.ts";

export type AnyPolicy = VolumePolicy | ClusterVolumePolicy;

/** What the two kinds of policy share, and what only the cluster's has. */
type PolicyFields = Omit<ClusterVolumePolicySpec, "ceilings">;

/** A misreading of these fields could extend against the user's will: with a problem in one of them, minAvailable is not guarded. */
const GUARDING_FIELDS = /^spec(\.(limits|mode|suspend|approveAbove|emergency)|$)/;

/** Compiles a policy object as the API server, or a file, has it. Never throws. */
export function compilePolicy(policy: AnyPolicy, cache: PatternCache = createPatternCache()): CompiledPolicy {
  const { spec, problems } = readSpec(policy);
  return compileFields(policy, spec, problems, cache);
}

/** All of a policy that takes no time, to select and to hold by until it is compiled: it has no rules. Never throws. */
export function outlinePolicy(policy: AnyPolicy): CompiledPolicy {
  const { spec, problems } = readSpec(policy);
  return outlineFields(policy, spec, new FieldReader(problems));
}

function readSpec(policy: AnyPolicy): { spec: PolicyFields; problems: PolicyProblem[] } {
  const schema = policy.kind === "VolumePolicy" ? volumePolicySpec : clusterVolumePolicySpec;
  const parsed = schema.safeParse(policy.spec);
  if (parsed.success) return { spec: parsed.data, problems: [] };
  const problems = parsed.error.issues.map(({ path, message }) => ({ field: fieldOf(path), message }));
  return { spec: readableFields(policy.spec), problems };
}

function fieldOf(path: readonly PropertyKey[]): string {
  return path.reduce<string>(
    (field, part) => field + (typeof part === "number" ? `[${part}]` : `.${String(part)}`),
    "spec",
  );
}

// A policy of the wrong shape still wins its volumes and guards their minAvailable, by those of its fields that have the right
// one. A selector that cannot be read counts as absent: it holds too many volumes rather than letting another policy change them.
function readableFields(spec: unknown): PolicyFields {
  const raw = z.record(z.string(), z.unknown()).safeParse(spec).data ?? {};
  const fields = { ...volumePolicySpec.shape, namespaceSelector: clusterVolumePolicySpec.shape.namespaceSelector };
  const readable = Object.entries(fields).flatMap(([name, schema]) => {
    const { data } = schema.safeParse(raw[name]);
    return data === undefined ? [] : [[name, data] as const];
  });
  return Object.fromEntries(readable);
}

function compileFields(
  policy: AnyPolicy,
  spec: PolicyFields,
  shapeProblems: readonly PolicyProblem[],
  cache: PatternCache,
): CompiledPolicy {
  const patterns = new PolicyPatterns(cache);
  const reader = new FieldReader(shapeProblems);
  const outline = outlineFields(policy, spec, reader);
  const variables = readVariables(spec, reader, patterns);
  const rules = variables === undefined ? [] : compileRules(spec.rules ?? [], variables, reader);
  const extend = compilePace("extend", spec.behavior?.extend, DEFAULT_EXTEND, reader);
  const shrink = compileShrinkPace(spec.behavior?.shrink, reader);
  const { problems } = reader;
  return {
    ...outline,
    problems,
    guardsMinAvailable: guardsMinAvailable(problems),
    rules: problems.length > 0 ? [] : rules,
    growthWindowsMs: problems.length > 0 ? [] : growthWindowsOf(rules.flatMap(expressionsOf)),
    extend,
    shrink,
    size: { ...outline.size, ranges: patterns.ranges },
  };
}

function outlineFields(policy: AnyPolicy, spec: PolicyFields, reader: FieldReader): CompiledPolicy {
  const isMisshapen = reader.problems.length > 0;
  const limits = readLimits(spec, reader);
  const trimEvery = readTrim(spec, reader);
  const approveAboveBytes = reader.size("spec.approveAbove", spec.approveAbove);
  const { problems } = reader;
  const key = keyOf(policy);
  const suspended = spec.suspend ?? false;
  return {
    key,
    generation: policy.metadata.generation,
    scope: policy.kind === "VolumePolicy" ? "Namespaced" : "Cluster",
    selection: selectionOf(policy, spec),
    suspended,
    decides: policy.kind === "VolumePolicy" || (spec.rules ?? []).length > 0 || suspended || isMisshapen,
    problems,
    guardsMinAvailable: guardsMinAvailable(problems),
    mode: {
      extend: spec.mode?.extend ?? DEFAULT_MODES.extend,
      shrink: spec.mode?.shrink ?? DEFAULT_MODES.shrink,
    },
    approveAboveBytes,
    growsInEmergencies: spec.emergency !== "Disabled",
    limits,
    rules: [],
    growthWindowsMs: [],
    extend: DEFAULT_EXTEND,
    shrink: DEFAULT_SHRINK,
    onStaleMetrics: spec.onStaleMetrics ?? "ExtendOnly",
    trimEvery,
    claimBackend: spec.claimBackend ?? "Disabled",
    withinBounds: withinBounds(key),
    size: { chars: policyChars(spec), ranges: 0 },
  };
}

function guardsMinAvailable(problems: readonly PolicyProblem[]): boolean {
  return !problems.some(({ field }) => GUARDING_FIELDS.test(field));
}

/** Undefined where no rule can be compiled. */
function readVariables(spec: PolicyFields, reader: FieldReader, patterns: PolicyPatterns): Variables | undefined {
  const chars = expressionChars(spec);
  if (chars > MAX_POLICY_CHARS) {
    const message = `the expressions of this policy have ${chars} characters, over the limit of ${MAX_POLICY_CHARS} for all together`;
    reader.refuse("spec.rules", message, "share what is repeated in variables, or write two policies");
    return undefined;
  }
  const compiled = compileVariables(spec.variables ?? [], patterns);
  if (compiled.ok) return compiled.variables;
  const names = (spec.variables ?? []).map(({ name }) => name);
  for (const problem of compiled.problems)
    reader.refuseExpression(`spec.variables[${names.lastIndexOf(problem.variable)}].expression`, problem);
  return undefined;
}

function readLimits({ limits, rules = [] }: PolicyFields, reader: FieldReader): SizeLimits {
  const minBytes = reader.size("spec.limits.min", limits?.min);
  const maxBytes = reader.size("spec.limits.max", limits?.max);
  const minAvailableBytes = reader.size("spec.limits.minAvailable", limits?.minAvailable);
  const extending = rules.find(({ action }) => action === "Extend");
  // Where the limits have not the right shape, it is not known whether there is one.
  const isReadable = !reader.problems.some(({ field }) => /^spec\.limits\b/.test(field));
  if (limits?.max === undefined && extending !== undefined && isReadable)
    reader.refuse(
      "spec.limits.max",
      `max is required: rule ${extending.name} extends, and a volume must not grow without a bound`,
    );
  if (minBytes !== undefined && maxBytes !== undefined && maxBytes < minBytes)
    reader.refuse("spec.limits.max", `max (${limits?.max}) is smaller than min (${limits?.min})`);
  if (minAvailableBytes !== undefined && maxBytes !== undefined && minAvailableBytes >= maxBytes)
    reader.refuse(
      "spec.limits.minAvailable",
      `minAvailable (${limits?.minAvailable}) leaves nothing of max (${limits?.max})`,
    );
  return { minBytes, maxBytes, minAvailableBytes };
}

/** As it is written; undefined when absent or refused. */
function readTrim({ trim }: PolicyFields, reader: FieldReader): string | undefined {
  const everyMs = reader.duration("spec.trim.every", trim?.every);
  if (everyMs === undefined) return undefined;
  if (everyMs >= parseDuration(TRIM_EVERY_MIN) && everyMs <= parseDuration(TRIM_EVERY_MAX)) return trim?.every;
  reader.refuse(
    "spec.trim.every",
    `"${trim?.every}" is out of range`,
    `write from ${TRIM_EVERY_MIN} to ${TRIM_EVERY_MAX}, such as 24h`,
  );
  return undefined;
}

function keyOf({ kind, metadata }: AnyPolicy): string {
  return kind === "VolumePolicy" ? `${metadata.namespace ?? "default"}/${metadata.name}` : metadata.name;
}

function selectionOf({ kind, metadata }: AnyPolicy, spec: PolicyFields): PolicySelection {
  const createdAtMs = Date.parse(metadata.creationTimestamp ?? "");
  return {
    namespace: kind === "VolumePolicy" ? (metadata.namespace ?? "default") : undefined,
    namespaceSelector: kind === "ClusterVolumePolicy" ? spec.namespaceSelector : undefined,
    selector: spec.selector,
    storageClassNames: spec.storageClassNames === undefined ? undefined : new Set(spec.storageClassNames),
    priority: spec.priority ?? 0,
    createdAtMs: Number.isNaN(createdAtMs) ? Number.POSITIVE_INFINITY : createdAtMs,
  };
}

function withinBounds(key: string): HoldPlan {
  return {
    kind: "hold",
    reason: "WithinBounds",
    message: `no rule of ${key} holds`,
    policy: key,
    rule: undefined,
    uncappedBytes: undefined,
    preview: undefined,
    nextEligibleMs: undefined,
    heldRules: 0,
  };
}

// From spec.behavior to how fast a direction may go, with its defaults.

const HOUR_MS = 3_600_000;
export const DEFAULT_STABILIZATION_MS = 24 * HOUR_MS;
const DEFAULT_STEPS = { minStepBytes: GIB, maxStepBytes: 100 * GIB, maxPerDay: undefined, windows: [] };
const DEFAULT_EXTEND: Pace = { cooldownMs: 0, ...DEFAULT_STEPS };
const DEFAULT_SHRINK: ShrinkPace = {
  cooldownMs: 6 * HOUR_MS,
  stabilizationMs: DEFAULT_STABILIZATION_MS,
  ...DEFAULT_STEPS,
};

/** The pace of one direction; what is absent or refused is the default. */
function compilePace(direction: Direction, spec: StepBehavior | undefined, defaults: Pace, reader: FieldReader): Pace {
  if (spec === undefined) return defaults;
  const field = `spec.behavior.${direction}`;
  const minStepBytes = reader.size(`${field}.minStep`, spec.minStep);
  const maxStepBytes = reader.size(`${field}.maxStep`, spec.maxStep);
  const pace = {
    cooldownMs: reader.duration(`${field}.cooldown`, spec.cooldown) ?? defaults.cooldownMs,
    minStepBytes: minStepBytes ?? Math.min(defaults.minStepBytes, maxStepBytes ?? Number.POSITIVE_INFINITY),
    maxStepBytes: maxStepBytes ?? Math.max(defaults.maxStepBytes, minStepBytes ?? 0),
    maxPerDay: spec.maxPerDay ?? defaults.maxPerDay,
    windows: readWindows(`${field}.windows`, spec.windows ?? [], reader),
  };
  if (pace.minStepBytes > pace.maxStepBytes)
    reader.refuse(`${field}.maxStep`, `maxStep (${spec.maxStep}) is smaller than minStep (${spec.minStep})`);
  return pace;
}

function compileShrinkPace(spec: ShrinkBehavior | undefined, reader: FieldReader): ShrinkPace {
  const field = "spec.behavior.shrink.stabilization";
  const written = reader.duration(field, spec?.stabilization);
  if (written !== undefined && written > MAX_WINDOW_MS)
    reader.refuse(
      field,
      `"${spec?.stabilization}" is longer than what is remembered of a volume's use`,
      `write at most ${formatDuration(MAX_WINDOW_MS)}`,
    );
  const pace = compilePace("shrink", spec, DEFAULT_SHRINK, reader);
  return { ...pace, stabilizationMs: written ?? DEFAULT_SHRINK.stabilizationMs };
}

/** Up to the first that is refused: it takes many times longer to find that one never opens than that one does. */
function readWindows(field: string, windows: readonly WindowSpec[], reader: FieldReader): MaintenanceWindow[] {
  const read: MaintenanceWindow[] = [];
  for (const [index, window] of windows.entries()) {
    const opened = readWindow(`${field}[${index}]`, window, reader);
    if (opened === undefined) break;
    read.push(opened);
  }
  return read;
}

type WindowSpec = NonNullable<StepBehavior["windows"]>[number];

function readWindow(field: string, window: WindowSpec, reader: FieldReader): MaintenanceWindow | undefined {
  const durationMs = reader.duration(`${field}.duration`, window.duration);
  if (durationMs === 0)
    reader.refuse(`${field}.duration`, "a window of 0s never opens", "write how long it stays open, such as 3h");
  try {
    return createMaintenanceWindow(window.cron, durationMs ?? 0, window.timeZone);
  } catch (error) {
    if (!(error instanceof MaintenanceWindowError)) throw error;
    reader.refuse(field, error.message);
    return undefined;
  }
}
