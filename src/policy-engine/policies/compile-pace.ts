// From spec.behavior to how fast a direction may go, with its defaults.
import type { StepBehavior } from "../../api/policy-behavior.ts";
import { GIB } from "../../units/quantity.ts";
import type { Direction } from "../decide/plan.ts";
import type { Pace } from "./compiled-policy.ts";
import type { FieldReader } from "./field-reader.ts";
import { createMaintenanceWindow, type MaintenanceWindow, MaintenanceWindowError } from "./maintenance-window.ts";

const DEFAULT_STEPS = { minStepBytes: GIB, maxStepBytes: 100 * GIB, maxPerDay: undefined, windows: [] };
export const DEFAULT_EXTEND: Pace = { cooldownMs: 0, ...DEFAULT_STEPS };
export const DEFAULT_SHRINK: Pace = { cooldownMs: 6 * 3_600_000, ...DEFAULT_STEPS };

/** The pace of one direction; what is absent or refused is the default. */
export function compilePace(
  direction: Direction,
  spec: StepBehavior | undefined,
  defaults: Pace,
  reader: FieldReader,
): Pace {
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
