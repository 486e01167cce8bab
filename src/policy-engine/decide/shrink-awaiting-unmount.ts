// Shrinks that wait for the next unmount: what cannot be made smaller while it is mounted, and can behind a snapshot of its thin pool. They
// are decided for a window only, and for a few minutes: what is decided by then replaces them, or they are over.
import { formatDuration } from "../../units/duration.ts";
import { formatBytes } from "../../units/quantity.ts";
import type { Facts } from "../facts/facts.ts";
import type { CompiledPolicy } from "../policies/compiled-policy.ts";
import type { ChangePlan, Plan } from "./plan.ts";
import type { Question } from "./question.ts";

/** What is suspended, deleted or changed meanwhile ends a shrink that waits within this. */
const LIFE_MS = 300_000;
const RENEWAL_MS = 120_000;

/** Why an ext4 is not made smaller, completing "…, but"; undefined: it is, at the next unmount. */
export function unmountedObstacle({ filesystem }: Facts, { shrink }: CompiledPolicy): string | undefined {
  if (!filesystem.shrinksUnmounted)
    return (
      "ext4 shrinks only while it is unmounted, and a crash in the middle of it can lose data where no thin pool's snapshot takes it back; " +
      "use btrfs where volumes should"
    );
  if (shrink.windows.length > 0) return undefined;
  return "ext4 shrinks only while it is unmounted, and that it does in a window alone: name one in behavior.shrink.windows";
}

/** The shrink, to be begun within the window that is open; or what waits already, where that serves. */
export function planAtUnmount(question: Question, policy: CompiledPolicy, plan: ChangePlan): Plan {
  const { nowMs, filesystem } = question.facts;
  const closesMs = Math.max(...policy.shrink.windows.map((window) => window.closesMs(nowMs) ?? nowMs));
  const notAfterMs = Math.min(nowMs + LIFE_MS, closesMs);
  const planned = filesystem.plannedShrink;
  const serves =
    planned !== undefined &&
    planned.fromBytes === plan.fromBytes &&
    planned.sizeBytes >= plan.sizeBytes &&
    planned.sizeBytes - plan.sizeBytes < policy.shrink.minStepBytes &&
    (planned.notAfterMs - nowMs > RENEWAL_MS || planned.notAfterMs >= notAfterMs) &&
    planned.notAfterMs > nowMs;
  if (!serves) return { ...plan, message: `${plan.message}, at the next unmount`, notAfterMs };
  return question.hold(
    "ShrinkAtUnmount",
    `${plan.rule ?? "a rule"}: it shrinks from ${formatBytes(planned.fromBytes)} to ${formatBytes(planned.sizeBytes)} when it is unmounted within the ` +
      `window, of which ${formatDuration(Math.max(0, Math.floor((closesMs - nowMs) / 60_000) * 60_000))} are left`,
    { rule: plan.rule, uncappedBytes: plan.uncappedBytes },
  );
}
