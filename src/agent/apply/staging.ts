// Whether a volume is mounted on this node: staged for kubelet, taken over after a restart of the agent, released (unstage-volume.ts), its
// member deleted. The CSI service checks requests and calls this. Sizes are not decided here.
import type { FilesystemLayout } from "../../contracts/kinds/filesystem-layout.ts";
import { formatQuantity } from "../../contracts/quantities/quantity.ts";
import type { KeyedQueue } from "../../platform/process/async/keyed-queue.ts";
import { waitUntil } from "../../platform/process/async/pause.ts";
import { measureVolume } from "../gather/measure-volume.ts";
import { canMount } from "../gather/operation-facts.ts";
import type { StatusReporter } from "../report/status-reporter.ts";
import type { Members, MountedVolume, Mounting, Resizing, UnmountedShrinks } from "../storage/storage.ts";
import { StorageError, type StorageErrorCode, unlessHung } from "../storage/storage-error.ts";
import type { NodeRecord } from "../volumes/node-records.ts";
import { type NodeVolume, saveRecord } from "../volumes/node-volume.ts";
import {
  mountedVolumeOf,
  type NodeVolumeState,
  type PresentMount,
  type Problem,
  volumeOf,
} from "../volumes/volume-state.ts";
import type { FilesystemLocks } from "./filesystem-lock.ts";
import { forgetLostMount, giveBackHeld, sampleMount, type UnstageParts, unstageVolume } from "./unstage-volume.ts";

export interface StagingParts extends UnstageParts {
  readonly storage: Mounting & Members & UnmountedShrinks & Pick<Resizing, "sizeBytes">;
  readonly queues: KeyedQueue;
  readonly reporter: Pick<StatusReporter, "announce">;
  /** Something about the volume has changed: decide and report again. */
  readonly changed: (handle: string) => void;
}

/** All are idempotent, and take place one after the other for each volume. Throw StorageError. */
export interface Staging {
  stage(volume: NodeVolume, stagingPath: string): Promise<void>;
  unstage(volume: NodeVolume, stagingPath: string): Promise<void>;
  /** After a restart: finds what an earlier agent staged. Pods never notice. */
  adopt(volume: NodeVolume): Promise<void>;
  /** Deletes the member and its data; the volume must not be mounted. */
  remove(volume: NodeVolume, layout: FilesystemLayout | undefined): Promise<void>;
  /** Releases members that have left a mounted filesystem. */
  releaseMembers(volume: NodeVolume): Promise<void>;
  /** Has the spare of a mounted filesystem brought to this node, as `layout` has it. */
  prepareSpares(volume: NodeVolume, layout: FilesystemLayout | undefined): Promise<void>;
  /** Stops work on a spare when the layout asks for another size or other members; the agent then decides again. */
  layoutChanged(volume: NodeVolume, layout: FilesystemLayout | undefined): void;
}

const FIND_LIMIT_MS = 20_000;
/** Kubelet gives up on a call after two minutes, and asks again. */
const MEMBERS_LIMIT_MS = 60_000;
const MEMBERS_INTERVAL_MS = 20;
/** What stands in conditions until a stage succeeds; DeviceBusy, Hung and WaitingForMember mend by themselves and are only returned. */
const LASTING: Readonly<Partial<Record<StorageErrorCode, Problem["reason"]>>> = {
  SignatureFound: "SignatureFound",
  AlreadyFormatted: "MembersMissing",
  WrongFilesystem: "MembersMissing",
  MembersMissing: "MembersMissing",
  MemberDriverFailed: "MountFailed",
  ShrinkOutcomeUnknown: "ShrinkOutcomeUnknown",
  DiskFull: "DiskFull",
  ReadOnly: "ReadOnly",
  NotPermitted: "MountFailed",
  CommandFailed: "MountFailed",
};

export function createStaging(parts: StagingParts): Staging {
  const { queues, changed } = parts;
  const inQueue = (volume: NodeVolume, work: () => Promise<void>): Promise<void> =>
    queues.run(volume.handle, () => noteProblem(volume, work));
  return {
    stage: async (volume, stagingPath) => {
      await untilMembersAreHere(volume);
      await inQueue(volume, () => stage(parts, volume, stagingPath)).finally(() => changed(volume.handle));
    },
    unstage: (volume, stagingPath) =>
      inQueue(volume, () => unstageVolume(parts, volume, stagingPath)).finally(() => changed(volume.handle)),
    adopt: async (volume) => {
      if (mayBeMounted(volume.state)) await inQueue(volume, () => adopt(parts, volume));
    },
    remove: (volume, layout) => inQueue(volume, () => remove(parts, volume, layout)),
    releaseMembers: (volume) =>
      queues.run(volume.handle, async () => {
        const { mounted, closing } = volume.state;
        if (mounted === undefined || closing) return;
        await letGo(parts, volume, mounted);
        changed(volume.handle);
      }),
    prepareSpares: (volume, layout) => {
      volume.dispatch({ type: "SparePreparationStarted", wanted: wantedBy(layout) });
      const signal = volume.signalOf("sparePreparation");
      return queues
        .run(volume.handle, async () => {
          const { mounted, closing } = volume.state;
          if (mounted === undefined || closing || signal.aborted) return;
          await prepareSpares(parts, volume, mounted, signal);
        })
        .finally(() => volume.dispatch({ type: "SparePreparationEnded" }))
        .then(() => changed(volume.handle));
    },
    // No change of a volume waits for a driver of its spare, which is prepared again once that is done.
    layoutChanged: (volume, layout) => {
      const { sparePreparation } = volume.state;
      if (sparePreparation !== undefined && sparePreparation.wanted !== wantedBy(layout))
        volume.cancel({ because: "MembersChanged" });
    },
  };
}

/** By an earlier agent, as far as this one knows. */
function mayBeMounted({ mounted, closing, record, recorded }: NodeVolumeState): boolean {
  return mounted === undefined && !closing && (record.stagingPath !== undefined || !recorded);
}

function wantedBy(layout: FilesystemLayout | undefined): string {
  return JSON.stringify([layout?.spec.target, layout?.spec.members]);
}

/**
 * Waits until the members of a span are attached, since kubelet asks for the filesystem before that. The reconciler copies the layout into
 * the record, which then says so. The wait runs outside the queue, so that the reconciler gets its turn. After the limit, staging reports
 * which members are missing.
 */
async function untilMembersAreHere(volume: NodeVolume): Promise<void> {
  if (volume.state.mounted !== undefined) return;
  await waitUntil(() => canMount(volume.state.record), MEMBERS_LIMIT_MS, MEMBERS_INTERVAL_MS);
}

async function stage(parts: StagingParts, volume: NodeVolume, stagingPath: string): Promise<void> {
  const { storage, locks, log } = parts;
  await forgetLostMount(parts, volume);
  const { state } = volume;
  if (state.mounted?.volume.mountPath === stagingPath) return volume.dispatch({ type: "FoundStaged" });
  if (state.phase === "Removed") throw removed(state);
  if (state.phase === "Mounted") throw alreadyStaged(state, state.mounted.volume.mountPath, stagingPath);
  await takeLock(locks, state);
  const sizeBytes = await sizeToStage(storage, volume.state);
  await hold(parts, volume, stagingPath);
  startWith(parts, volume, await storage.stage(volumeOf(volume.state.record), sizeBytes, stagingPath));
  volume.dispatch({ type: "Staged" });
  await saveRecord(parts.records, volume, "PowerCut");
  await measureVolume(storage, volume);
  log.info({ volume: volume.handle, stagingPath, size: formatQuantity(volume.state.sizeBytes ?? 0) }, "staged");
}

function startWith({ sampler }: StagingParts, volume: NodeVolume, mounted: MountedVolume): void {
  volume.dispatch({ type: "Mounted", volume: mounted });
  sampleMount(sampler, volume.state);
}

/** Announces the hold to the API server where the backend needs that, and records it, before anything of the volume is touched. */
async function hold(parts: StagingParts, volume: NodeVolume, stagingPath: string): Promise<void> {
  const { handle } = volume;
  const { held, record } = volume.state;
  // Members are unplugged by others, who look at the layout: it says that this node has them before the first one is touched.
  if (record.backend === "span") await parts.reporter.announce(handle);
  volume.dispatch({ type: "StagingStarted", stagingPath });
  try {
    await saveRecord(parts.records, volume, "PowerCut");
  } catch (error) {
    // Without a record on this node's disk the hold is not valid. The next report withdraws it, so that other nodes can have the members.
    volume.dispatch({ type: "StagingNotRecorded", stagingPath: record.stagingPath, held });
    throw error;
  }
}

async function adopt(parts: StagingParts, volume: NodeVolume): Promise<void> {
  const { storage, locks, records, log } = parts;
  const { handle, state } = volume;
  if (state.mounted !== undefined || state.closing) return;
  const before = volumeOf(state.record);
  // Also where no record says so: the members count as held by this node until the agent has checked and given back each one.
  volume.dispatch({ type: "HoldAssumed" });
  const stagingPath = state.record.stagingPath ?? (await unrecordedMount(storage, state));
  if (stagingPath === undefined) return giveBackHeld(volume, () => storage.giveBack(before));
  await takeLock(locks, state);
  const found = await unlessHung(storage.find(before, stagingPath), FIND_LIMIT_MS, `finding ${handle}`);
  if (found === undefined) {
    await giveBackHeld(volume, () => storage.unstage(before, stagingPath));
    await storage.finishUnmounted(before);
    log.info({ volume: handle, stagingPath }, "no longer mounted; kubelet will stage it when a pod needs it");
    volume.dispatch({ type: "Unstaged" });
    return saveRecord(records, volume, "PowerCut");
  }
  if (!volume.state.recorded) {
    volume.dispatch({ type: "FoundMounted", stagingPath });
    await saveRecord(records, volume, "PowerCut");
  }
  startWith(parts, volume, found);
  log.info({ volume: handle, stagingPath }, "taken over from an earlier agent");
}

async function letGo({ storage }: StagingParts, volume: NodeVolume, mounted: PresentMount): Promise<void> {
  try {
    await storage.releaseMembers(mountedVolumeOf(mounted, volume.state.record));
    volume.dispatch({ type: "LeftMembersReleased" });
  } catch (error) {
    if (error instanceof StorageError) {
      const reason = LASTING[error.code] === undefined ? "WaitingForMember" : "MemberFailed";
      volume.dispatch({ type: "LeftMembersNotReleased", problem: { reason, message: error.message } });
    }
    throw error;
  }
}

/** The filesystem works without its spare, so a problem with the spare is only reported. */
async function prepareSpares(
  { storage }: StagingParts,
  volume: NodeVolume,
  mounted: PresentMount,
  signal: AbortSignal,
): Promise<void> {
  try {
    await storage.prepareSpares(mountedVolumeOf(mounted, volume.state.record), signal);
    volume.dispatch({ type: "SparesPrepared" });
  } catch (error) {
    // Nothing is wrong with it: it has given way.
    if (signal.aborted) return;
    if (error instanceof StorageError) volume.dispatch({ type: "SparesNotPrepared", message: error.message });
    throw error;
  }
}

async function remove(
  { storage, records, locks, log }: StagingParts,
  volume: NodeVolume,
  layout: FilesystemLayout | undefined,
): Promise<void> {
  const { handle, state } = volume;
  if (state.mounted !== undefined) return;
  assertNamed(state.record, layout);
  await takeLock(locks, state);
  const present = volumeOf(volume.state.record);
  await storage.remove(present);
  volume.dispatch({ type: "MemberDeleted" });
  await records.remove(handle);
  volume.dispatch({ type: "RecordRemoved" });
  await locks.release(present.fsid);
  log.info({ volume: handle }, "the member has been deleted");
}

/** After an etcd was put back, a layout of the same handle may speak of another logical volume than the one that this node has filled. */
function assertNamed(record: NodeRecord, layout: FilesystemLayout | undefined): void {
  if (record.backend !== "lvm") return;
  const named = layout?.spec.members?.[0]?.source.logicalVolume;
  if (named?.volumeID === record.volumeID && named.deviceClass === record.deviceClass) return;
  throw new StorageError(
    "WrongFilesystem",
    `Remove one by hand; neither is removed: the layout asks for ${named?.volumeID} of ${named?.deviceClass}, this node has ${record.volumeID} of ${record.deviceClass}`,
  );
}

/** It is taken back by what succeeds: a mount, an unmount, a removal. A look that finds nothing says nothing. */
async function noteProblem(volume: NodeVolume, work: () => Promise<void>): Promise<void> {
  try {
    await work();
  } catch (error) {
    if (!(error instanceof StorageError)) throw error;
    const { code, message } = error;
    const reason = LASTING[code];
    const isSaid = volume.state.leavingProblem?.message === message;
    if (reason !== undefined && !isSaid) volume.dispatch({ type: "StagingFailed", problem: { reason, message } });
    throw error;
  }
}

/** A node that has lost its records may still have the volume mounted under a running pod, and kubelet will not stage that volume again. */
function unrecordedMount(storage: Pick<Mounting, "mountPath">, state: NodeVolumeState): Promise<string | undefined> {
  if (state.recorded) return Promise.resolve(undefined);
  const looking = storage.mountPath(volumeOf(state.record));
  return unlessHung(looking, FIND_LIMIT_MS, `looking for a mount of ${state.handle}`);
}

async function takeLock(locks: FilesystemLocks, { handle, record }: NodeVolumeState): Promise<void> {
  if (await locks.acquire(volumeOf(record).fsid)) return;
  throw new StorageError(
    "DeviceBusy",
    `another agent on this node holds volume ${handle}; wait until it has ended, or end it`,
  );
}

/** The size for a member that is yet to be made. A member that was made once and is missing now is never replaced. */
async function sizeToStage(storage: Pick<Resizing, "sizeBytes">, { handle, record }: NodeVolumeState): Promise<number> {
  if (record.backend !== "loop") return 0; // Its members were made elsewhere, and have sizes of their own.
  const presentBytes = await storage.sizeBytes(volumeOf(record));
  // 0: made by an agent that died before it could give it a size.
  if (presentBytes !== undefined && presentBytes > 0) return presentBytes;
  if (presentBytes === undefined && record.memberMade)
    throw new StorageError(
      "AlreadyFormatted",
      `member ${record.memberFile} of volume ${handle} was made on this node and is missing; bring the file back`,
    );
  if (record.initialSizeBytes === undefined)
    throw new StorageError(
      "AlreadyFormatted",
      `FilesystemLayout ${handle} says no size and the node has no member ${record.memberFile}; nothing is guessed`,
    );
  return record.initialSizeBytes;
}

function removed({ handle }: NodeVolumeState): StorageError {
  return new StorageError("AlreadyFormatted", `the member of volume ${handle} has been deleted; the claim is gone`);
}

function alreadyStaged({ handle }: NodeVolumeState, at: string, wanted: string): StorageError {
  return new StorageError(
    "DeviceBusy",
    `volume ${handle} is staged at ${at}; unstage it before staging it at ${wanted}`,
  );
}
