// Whether what a Filesystem's status would say is on its way and so young that it most likely has come by the time anybody reads it.
// Pure. A status that is behind the Filesystem's generation reads as "in progress" in the meantime, so nothing untrue stands there.
import type { Filesystem } from "../../api/filesystem.ts";
import type { FilesystemLayout } from "../../api/filesystem-layout.ts";
import type { Condition } from "../../api/schema.ts";
import type { ApplyConfiguration } from "../../kube/client/client.ts";

/** An extend by a member is over by then, and has cost no write for what it waited for in between. */
const PASSING_MS = 3000;

/** How long it may still be left untold; undefined: it is told now. */
export function untoldForMs(
  { status: told, metadata }: Filesystem,
  layout: FilesystemLayout | undefined,
  wanted: ApplyConfiguration,
  nowMs: number,
): number | undefined {
  const ageMs = nowMs - Date.parse(layout?.spec.target?.decidedAt ?? "");
  if (!(ageMs >= 0 && ageMs < PASSING_MS) || told?.observedGeneration === metadata.generation) return undefined;
  const { conditions = [], capacity } = wanted["status"] as NonNullable<Filesystem["status"]>;
  const before = told?.conditions ?? [];
  const isOnItsWay = statusOf(conditions, "Reconciling") === "True" && statusOf(before, "Reconciling") === "False";
  const isElseTheSame = (["Ready", "Stalled"] as const).every(
    (type) => statusOf(conditions, type) === statusOf(before, type),
  );
  return isOnItsWay && isElseTheSame && capacity === told?.capacity ? PASSING_MS - ageMs : undefined;
}

function statusOf(conditions: readonly Condition[], type: string): Condition["status"] | undefined {
  return conditions.find((condition) => condition.type === type)?.status;
}
