// A volume of a node as its agent knows it: recorded and mounted, but for what a case says.

import type { MountedVolume } from "../../src/agent/storage/storage.ts";
import type { NodeRecord } from "../../src/agent/volumes/node-records.ts";
import { NodeVolume } from "../../src/agent/volumes/node-volume.ts";
import {
  type NodeVolumeState,
  newVolumeState,
  type PresentMount,
  type RunningOperation,
  volumeOf,
} from "../../src/agent/volumes/volume-state.ts";
import type { OperationKind } from "../../src/contracts/kinds/filesystem-layout.ts";

type Unmounted = NodeVolumeState & { readonly phase: "Unmounted" | "Removed" };

/** What is known of its mount, with all else. `mounted` undefined: it is not mounted. */
export type VolumeChange = Partial<Omit<Unmounted, "mounted">> &
  Partial<Omit<PresentMount, "volume">> & { readonly mounted?: MountedVolume | undefined };

export function buildMount(record: NodeRecord): MountedVolume {
  return { ...volumeOf(record), device: "/dev/loop9", mountPath: "/mnt" };
}

/** Of one that is mounted. */
export function mountOf({ state }: NodeVolume): MountedVolume {
  if (state.mounted === undefined) throw new Error(`${state.handle} is not mounted`);
  return state.mounted.volume;
}

export function buildRunning(kind: OperationKind, change: Partial<RunningOperation> = {}): RunningOperation {
  const operation = { kind, from: "2Gi", to: "1Gi", epoch: 1, startedAt: "2026-01-01T00:00:00Z", step: "at work" };
  return { operation, startedMs: 0, phase: "UnderWay", cancellation: undefined, ...change };
}

export function buildVolumeState(record: NodeRecord, change: VolumeChange = {}): NodeVolumeState {
  const { mounted = buildMount(record), members, hung, readOnlySinceMs, moving, spareProblem, ...known } = change;
  const state = { ...newVolumeState(record, true), ...known };
  if ("mounted" in change && change.mounted === undefined)
    return { ...state, phase: known.phase ?? "Unmounted", mounted: undefined };
  const found = { members: members ?? [], hung: hung ?? false, readOnlySinceMs, moving, spareProblem };
  return { ...state, phase: "Mounted", mounted: { volume: mounted, ...found } };
}

export function buildVolume(record: NodeRecord, change: VolumeChange = {}): NodeVolume {
  return new NodeVolume(buildVolumeState(record, change));
}
