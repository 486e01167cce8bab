// One volume made consistent: gather, decide, apply, report. The target goes first, since a filling disk waits for it; the
// status follows. What was lost is made again before anything else is decided on it.
import { FILESYSTEMS, type Filesystem } from "../../api/filesystem.ts";
import { FILESYSTEM_LAYOUTS, type FilesystemLayout } from "../../api/filesystem-layout.ts";
import { FIELD_MANAGERS } from "../../api/names.ts";
import { shows } from "../../kube/apply.ts";
import type { KubeClient } from "../../kube/client.ts";
import type { EventRecorder } from "../../kube/events.ts";
import { isKubeError } from "../../kube/kube-error.ts";
import type { Outcome } from "../../kube/work-queue.ts";
import type { Clock } from "../../process/clock.ts";
import type { OperatorMetrics } from "../metrics.ts";
import { decideRebuild, looksLost } from "./decide-rebuild.ts";
import { decideStatus } from "./decide-status.ts";
import { decideTarget } from "./decide-target.ts";
import { writeFilesystem } from "./filesystem-writer.ts";
import { gatherFacts, gatherLiveFacts, type VolumeFacts } from "./gather.ts";
import { isRemoving } from "./layout-facts.ts";
import type { LayoutWriter } from "./layout-writer.ts";
import type { VolumeCaches } from "./volume-caches.ts";

export interface VolumeReconciling {
  readonly client: KubeClient;
  readonly caches: VolumeCaches;
  readonly layouts: LayoutWriter;
  readonly events: EventRecorder;
  readonly metrics: OperatorMetrics;
  readonly clock: Clock;
}

const APPLY = { fieldManager: FIELD_MANAGERS.operator, force: true } as const;

export async function reconcileVolume(reconciling: VolumeReconciling, handle: string): Promise<Outcome> {
  const cached = gatherFacts(reconciling.caches, handle);
  const { facts, missing } = looksLost(cached) ? await rebuild(reconciling, cached) : { facts: cached, missing: [] };
  const { filesystem } = facts;
  if (filesystem === undefined || (facts.layout === undefined && missing.length === 0)) return "done";
  if (facts.layout !== undefined && isRemoving(facts.layout)) return "done";
  const staleEpoch = facts.layout && (await carryTarget(reconciling, facts.layout, filesystem));
  await reportStatus(reconciling, { handle, filesystem, layout: facts.layout, missing, staleEpoch });
  return "done";
}

/** Makes again what is really gone. Returns the facts as they are then, and what the record lacks. */
async function rebuild(
  { client, events, metrics }: VolumeReconciling,
  cached: VolumeFacts,
): Promise<{ facts: VolumeFacts; missing: readonly string[] }> {
  const live = await gatherLiveFacts(client, cached);
  const plan = decideRebuild(live);
  if (plan === undefined) return { facts: live, missing: [] };
  const layout = plan.layout
    ? await client.apply("rebuild/layout", FILESYSTEM_LAYOUTS, plan.layout, APPLY)
    : live.layout;
  const filesystem = plan.filesystemOf ? await writeFilesystem(client, plan.filesystemOf, true) : live.filesystem;
  if (plan.layout) metrics.rebuilt("FilesystemLayout");
  if (plan.filesystemOf) metrics.rebuilt("Filesystem");
  const rebuilt = [...(plan.layout ? ["FilesystemLayout"] : []), ...(plan.filesystemOf ? ["Filesystem"] : [])];
  if (rebuilt.length > 0 && filesystem !== undefined)
    events.record(
      filesystem,
      "Normal",
      "Rebuilt",
      `${rebuilt.join(" and ")} of volume ${cached.handle} had been deleted, and was made again from PersistentVolume ${live.persistentVolume?.metadata.name}`,
    );
  return { facts: { ...live, layout, filesystem }, missing: plan.missing };
}

/** Copies a newer target to the layout. Returns why not, where a deposed leader wrote it. */
async function carryTarget(
  { layouts, events }: VolumeReconciling,
  layout: FilesystemLayout,
  filesystem: Filesystem,
): Promise<string | undefined> {
  let refusal: string | undefined;
  await layouts.update("carry-target/layout", layout, (current) => {
    const plan = decideTarget(current, filesystem);
    refusal = plan.do === "refuse" ? plan.message : undefined;
    return plan.do === "copy" ? { target: plan.target } : undefined;
  });
  if (refusal !== undefined) events.record(filesystem, "Warning", "StaleEpoch", refusal);
  return refusal;
}

async function reportStatus(
  { client, clock }: VolumeReconciling,
  facts: Parameters<typeof decideStatus>[0],
): Promise<void> {
  const status = decideStatus(facts, clock.nowMs());
  if (shows(facts.filesystem, status)) return;
  try {
    await client.apply("report-status/filesystem", FILESYSTEMS, status, { ...APPLY, subresource: "status" });
  } catch (error) {
    // Deleted meanwhile: the watch says so, and it is either made again or wanted gone.
    if (!isKubeError(error, "NotFound")) throw error;
  }
}
