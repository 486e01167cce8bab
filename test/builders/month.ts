// A month of one volume's life under a policy, a decision each five minutes unless a test says otherwise, each change made at once: how often it grew, shrank and flapped.
import { formatDuration } from "../../src/contracts/quantities/duration.ts";
import { GIB } from "../../src/contracts/quantities/quantity.ts";
import type { ChangePlan } from "../../src/policy-engine/decide/plan.ts";
import type { CompiledPolicy } from "../../src/policy-engine/policies/compiled-policy.ts";
import { NOW_MS } from "./facts.ts";
import { Player } from "./scenario.ts";

const STEP_MS = 300_000;
const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
const DAYS = 30;
/** What is in use is known for so long before the month begins. */
const KNOWN_MS = DAY_MS;

/** Bytes in use, so long after the month's beginning; before it, too. */
export type Trace = (sinceMs: number) => number;

export interface Month {
  readonly extends: number;
  readonly shrinks: number;
  /** Shrinks that an extend within 24 h has taken back, at no more use than the peak of the 24 h before. */
  readonly flaps: number;
}

export const TRACES: Readonly<Record<string, Trace>> = {
  steady: (ms) => (10 + (40 * ms) / (DAYS * DAY_MS)) * GIB,
  diurnal: (ms) => (30 + 20 * Math.sin((2 * Math.PI * ms) / DAY_MS)) * GIB,
  sawtooth: (ms) => (5 + 45 * phase(ms, 12 * HOUR_MS)) * GIB,
  "log rotation": (ms) => (5 + 40 * phase(ms, DAY_MS)) * GIB,
  compaction: (ms) => (phase(ms, 2 * HOUR_MS) < 0.1 ? 64 : 32) * GIB,
  "bulk load and delete": (ms) => (phase(ms, 10 * DAY_MS) < 0.3 ? 90 : 5) * GIB,
};

function phase(ms: number, periodMs: number): number {
  return (((ms % periodMs) + periodMs) % periodMs) / periodMs;
}

/** Made at once, of this use. */
export interface MadeChange {
  readonly plan: ChangePlan;
  readonly atMs: number;
  readonly usedBytes: number;
}

interface MonthOptions {
  readonly stepMs?: number;
  readonly days?: number;
  /** Of the time before the month begins, too. */
  readonly onChange?: (made: MadeChange) => void;
}

export function playMonth(policy: CompiledPolicy, trace: Trace, options: MonthOptions = {}): Month {
  const { stepMs = STEP_MS, days = DAYS, onChange } = options;
  const volume = { request: "100Gi", initialSize: "1Gi" };
  const player = new Player({ volume, sampleEvery: formatDuration(stepMs) }, policy);
  player.sizeBytes = 100 * GIB;
  player.startAt(NOW_MS - KNOWN_MS - stepMs);
  const used: number[] = [];
  const counts = { extends: 0, shrinks: 0, flaps: 0 };
  let lastShrink: { readonly atMs: number; readonly peakBytes: number } | undefined;
  for (let atMs = -KNOWN_MS; atMs < days * DAY_MS; atMs += stepMs) {
    const usedBytes = Math.round(trace(atMs));
    used.push(usedBytes);
    if (used.length > DAY_MS / stepMs) used.shift();
    const plan = player.step(NOW_MS + atMs, usedBytes);
    const { kind } = plan;
    if (kind === "hold") continue;
    onChange?.({ plan, atMs, usedBytes });
    if (atMs < 0) continue;
    counts[`${kind}s`] += 1;
    if (kind === "shrink") lastShrink = { atMs, peakBytes: Math.max(...used) };
    else if (lastShrink !== undefined && atMs - lastShrink.atMs < DAY_MS && usedBytes <= lastShrink.peakBytes) {
      counts.flaps += 1;
      lastShrink = undefined;
    }
  }
  return counts;
}
