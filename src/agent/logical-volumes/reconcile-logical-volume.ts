// One look at one LogicalVolume of this node: its volume is found or made, or a snapshot removed, and what is there is told. What cannot
// succeed as things are is told and left; anything else is tried again.
import { status } from "@grpc/grpc-js";
import { LOGICAL_VOLUMES, type LogicalVolume, type LogicalVolumeStatus } from "../../api/logical-volume.ts";
import { API_VERSION, FIELD_MANAGERS } from "../../api/names.ts";
import type { ReadableStore } from "../../kube/cache/store.ts";
import type { Applier } from "../../kube/client/apply-on-change.ts";
import { versionOf } from "../../kube/client/on-latest.ts";
import type { EventRecorder } from "../../kube/events/events.ts";
import { isKubeError } from "../../kube/kube-error.ts";
import type { Outcome } from "../../kube/queue/work-queue.ts";
import type { Logger } from "../../process/log.ts";
import { formatQuantity } from "../../units/quantity.ts";
import { LvmdError } from "../lvmd-client/lvmd-error.ts";
import type { VolumeLanes } from "../volumes/volume-lanes.ts";
import { type FindOrMakeParts, findOrMake } from "./find-or-make.ts";
import { type RemoveSnapshotParts, removeSnapshot } from "./remove-snapshot.ts";

export interface LogicalVolumeParts extends FindOrMakeParts, RemoveSnapshotParts {
  readonly volumes: ReadableStore<LogicalVolume>;
  /** Its removal takes place in the same lane. */
  readonly lanes: VolumeLanes;
  readonly applier: Applier;
  readonly events: EventRecorder;
  readonly log: Logger;
}

const APPLY_OPTIONS = { fieldManager: FIELD_MANAGERS.agent, force: true, subresource: "status" } as const;

/** Rejects with what is to be tried again. */
export async function reconcileLogicalVolume(parts: LogicalVolumeParts, name: string): Promise<Outcome> {
  await parts.lanes.run(name, async () => {
    const volume = parts.volumes.get(name);
    if (volume === undefined || !isForThisNode(parts, volume)) return;
    if (volume.spec.state !== "Removed" && isGivenUp(volume)) return;
    const found = await (volume.spec.state === "Removed" ? removedStatus(parts, volume) : statusOf(parts, volume));
    if (found !== undefined) await tell(parts, volume, found);
  });
  return "done";
}

function isForThisNode({ nodeName }: LogicalVolumeParts, { metadata, spec }: LogicalVolume): boolean {
  return spec.nodeName === nodeName && metadata.deletionTimestamp === undefined;
}

/** Of lvmd's answers those that the same question gets again: a larger or another volume is another object, or another generation. */
const FOR_GOOD: readonly (status | undefined)[] = [
  status.INVALID_ARGUMENT,
  status.NOT_FOUND,
  status.OUT_OF_RANGE,
  status.RESOURCE_EXHAUSTED,
  status.UNIMPLEMENTED,
];

function isGivenUp({ metadata, status: told }: LogicalVolume): boolean {
  return (
    told?.volumeID === undefined && FOR_GOOD.includes(told?.code) && told?.observedGeneration === metadata.generation
  );
}

/** Undefined: there is nothing to tell. */
async function statusOf(parts: LogicalVolumeParts, volume: LogicalVolume): Promise<LogicalVolumeStatus | undefined> {
  const observedGeneration = volume.metadata.generation;
  try {
    const found = await findOrMake(parts, volume);
    if (found === "Gone") return undefined;
    return { observedGeneration, volumeID: found.name, currentSize: formatQuantity(found.sizeBytes) };
  } catch (error) {
    if (!(error instanceof LvmdError)) throw error;
    parts.events.record(volume, "Warning", "LogicalVolumeNotMade", error.message);
    if (!FOR_GOOD.includes(error.code)) throw error;
    parts.log.warn({ logicalVolume: volume.metadata.name, err: error }, "the volume is not made");
    return { observedGeneration, code: error.code, message: error.said };
  }
}

async function removedStatus(parts: LogicalVolumeParts, volume: LogicalVolume): Promise<LogicalVolumeStatus> {
  const observedGeneration = volume.metadata.generation;
  if (volume.status?.state === "Removed") return { observedGeneration, state: "Removed" };
  try {
    await removeSnapshot(parts, volume);
    return { observedGeneration, state: "Removed" };
  } catch (error) {
    if (error instanceof LvmdError) parts.events.record(volume, "Warning", "LogicalVolumeNotRemoved", error.message);
    throw error;
  }
}

/** On that very version: another one may have the name since. A Conflict has the whole look repeated. */
async function tell({ applier }: LogicalVolumeParts, live: LogicalVolume, told: LogicalVolumeStatus): Promise<void> {
  const configuration = { apiVersion: API_VERSION, kind: live.kind, metadata: versionOf(live), status: told };
  try {
    await applier.applyOnChange("logical-volume/status", LOGICAL_VOLUMES, configuration, APPLY_OPTIONS, live);
  } catch (error) {
    if (!isKubeError(error, "NotFound")) throw error; // deleted meanwhile
  }
}
