// Whether a volume is mounted on this node: staged for kubelet, taken over after a restart of the agent, let go, and its
// member deleted. The CSI service checks requests and calls this; sizes are none of its business.
import type { FilesystemLayout } from "../../api/filesystem-layout.ts";
import type { Logger } from "../../process/log.ts";
import { formatQuantity } from "../../units/quantity.ts";
import { grantOf } from "../decide/decide-emergency.ts";
import { measureVolume } from "../gather/measure-volume.ts";
import { canMount } from "../gather/span-facts.ts";
import type { StatusReporter } from "../report/status-reporter.ts";
import type { Sampler } from "../sampling/sampler.ts";
import { type MountedVolume, type Storage, StorageError, type StorageErrorCode } from "../storage/storage.ts";
import { waitUntil } from "../storage/wait-until.ts";
import type { NodeRecord, NodeRecords } from "../volumes/node-records.ts";
import { saveRecord } from "../volumes/save-record.ts";
import type { VolumeLanes } from "../volumes/volume-lanes.ts";
import { mountedVolumeOf, type Problem, type VolumeState, volumeOf } from "../volumes/volume-state.ts";
import { withTimeLimit } from "../volumes/wait-with-limit.ts";
import type { FilesystemLocks } from "./filesystem-lock.ts";
import { settled } from "./settle-size.ts";

export interface StagingParts {
  readonly storage: Storage;
  readonly records: NodeRecords;
  readonly locks: FilesystemLocks;
  readonly lanes: VolumeLanes;
  readonly sampler: Sampler;
  readonly reporter: Pick<StatusReporter, "announce">;
  readonly log: Logger;
  /** Cancels a running shrink, waits for a running extend. */
  readonly quiesce: (state: VolumeState) => Promise<void>;
  /** Of a volume that has just been unmounted: what is wanted of its size, and must be done now. Rejects where it is not ended. */
  readonly shrinkAtUnmount: (state: VolumeState) => Promise<void>;
  /** Something about the volume changed: decide and report anew. */
  readonly changed: (handle: string) => void;
}

/** All are idempotent, and take place one after the other for each volume. Throw StorageError. */
export interface Staging {
  stage(state: VolumeState, stagingPath: string): Promise<void>;
  unstage(state: VolumeState, stagingPath: string): Promise<void>;
  /** After a restart: finds what an earlier agent staged. Pods never notice. */
  adopt(state: VolumeState): Promise<void>;
  /** Deletes the member and its data; the volume must not be mounted. */
  remove(state: VolumeState, layout: FilesystemLayout | undefined): Promise<void>;
  /** Lets go of members that have left a mounted filesystem. */
  settle(state: VolumeState): Promise<void>;
  /** Has the spare of a mounted filesystem brought to this node, as `layout` has it. */
  prepareSpares(state: VolumeState, layout: FilesystemLayout | undefined): Promise<void>;
  /** Where another size or other members are wanted, work on a spare gives way, and is decided anew. */
  layoutChanged(handle: string, layout: FilesystemLayout | undefined): void;
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
  ShrinkInDoubt: "ShrinkInDoubt",
  DiskFull: "DiskFull",
  ReadOnly: "ReadOnly",
  NotPermitted: "MountFailed",
  CommandFailed: "MountFailed",
};

export function createStaging(parts: StagingParts): Staging {
  const { lanes, changed } = parts;
  // No change of a volume waits for a driver of its spare, which is prepared again once that is done.
  const preparing = new Map<string, { readonly wanted: string; readonly control: AbortController }>();
  const inLane = (state: VolumeState, work: () => Promise<void>): Promise<void> =>
    lanes.run(state.handle, () => noteProblem(state, work));
  return {
    stage: async (state, stagingPath) => {
      await untilMembersAreHere(state);
      await inLane(state, () => stage(parts, state, stagingPath)).finally(() => changed(state.handle));
    },
    unstage: (state, stagingPath) =>
      inLane(state, () => unstage(parts, state, stagingPath)).finally(() => changed(state.handle)),
    adopt: async (state) => {
      if (state.mounted === undefined && !state.closing && (state.record.stagingPath !== undefined || !state.recorded))
        await inLane(state, () => adopt(parts, state));
    },
    remove: (state, layout) => inLane(state, () => remove(parts, state, layout)),
    settle: (state) =>
      lanes.run(state.handle, async () => {
        if (state.mounted === undefined || state.closing) return;
        await letGo(parts, state, state.mounted);
        changed(state.handle);
      }),
    prepareSpares: (state, layout) => {
      const control = new AbortController();
      preparing.set(state.handle, { wanted: wantedBy(layout), control });
      return lanes
        .run(state.handle, async () => {
          if (state.mounted === undefined || state.closing || control.signal.aborted) return;
          await prepareSpares(parts, state, state.mounted, control.signal);
        })
        .finally(() => preparing.delete(state.handle))
        .then(() => changed(state.handle));
    },
    layoutChanged: (handle, layout) => {
      const present = preparing.get(handle);
      if (present !== undefined && present.wanted !== wantedBy(layout)) present.control.abort();
    },
  };
}

function wantedBy(layout: FilesystemLayout | undefined): string {
  return JSON.stringify([layout?.spec.target, layout?.spec.members]);
}

/**
 * The members of a span are attached while kubelet asks for the filesystem already; the layout, which the reconciler reads into
 * the record, says when they are. Outside the lane, in which the reconciler takes its turn. What is still missing then is told.
 */
async function untilMembersAreHere(state: VolumeState): Promise<void> {
  if (state.mounted !== undefined) return;
  await waitUntil(() => canMount(state.record), MEMBERS_LIMIT_MS, MEMBERS_INTERVAL_MS);
}

async function stage(parts: StagingParts, state: VolumeState, stagingPath: string): Promise<void> {
  const { storage, locks, log } = parts;
  if (state.mounted?.mountPath === stagingPath) {
    state.problem = undefined;
    return;
  }
  if (state.removed) throw removed(state);
  if (state.mounted !== undefined) throw alreadyStaged(state, state.mounted.mountPath, stagingPath);
  await takeLock(locks, state);
  const sizeBytes = await sizeToStage(storage, state);
  await hold(parts, state, stagingPath);
  begin(parts, state, await storage.stage(volumeOf(state.record), sizeBytes, stagingPath));
  // It is whole without those that were in it before.
  if (state.record.backend === "span") state.record = { ...state.record, former: undefined };
  await changeRecord(parts, state, { memberMade: true });
  await measureVolume(storage, state);
  log.info({ volume: state.handle, stagingPath, size: formatQuantity(state.sizeBytes ?? 0) }, "staged");
}

/** Before anything of it is touched: it is told, where it has to be, and recorded. */
async function hold(parts: StagingParts, state: VolumeState, stagingPath: string): Promise<void> {
  const { held } = state;
  const before = state.record.stagingPath;
  // Members are unplugged by others, who look at the layout: it says that this node has them before the first one is touched.
  if (state.record.backend === "span") await parts.reporter.announce(state.handle);
  try {
    await changeRecord(parts, state, { stagingPath });
  } catch (error) {
    // A node whose disk takes no record does not keep others from the members: what is told next takes it back.
    state.held = held;
    state.record = { ...state.record, stagingPath: before };
    throw error;
  }
}

async function unstage(parts: StagingParts, state: VolumeState, stagingPath: string): Promise<void> {
  const { storage, locks, sampler, log } = parts;
  state.closing = true;
  try {
    await parts.quiesce(state);
    sampler.forget(state.handle);
    await storage.unstage(volumeOf(state.record), stagingPath);
    state.mounted = undefined;
    state.held = false;
    state.members = [];
    state.leavingProblem = undefined;
    state.spareProblem = undefined;
    state.hung = false;
    state.readOnlySinceMs = undefined;
    state.problem = undefined;
    settled(state);
    // The record still says that it is staged here: after a crash the next agent takes it up from there.
    await parts.shrinkAtUnmount(state);
    state.reading = undefined;
    await changeRecord(parts, state, { stagingPath: undefined });
    await locks.release(volumeOf(state.record).fsid);
    log.info({ volume: state.handle, stagingPath }, "unstaged");
  } finally {
    state.closing = false;
    // It could not be unmounted: it is sampled on.
    if (state.mounted !== undefined) watch(sampler, state, state.mounted);
  }
}

async function adopt(parts: StagingParts, state: VolumeState): Promise<void> {
  const { storage, locks, log } = parts;
  if (state.mounted !== undefined || state.closing) return;
  const volume = volumeOf(state.record);
  const stagingPath = state.record.stagingPath ?? (await unrecordedMount(storage, state));
  if (stagingPath === undefined) return;
  await takeLock(locks, state);
  const found = await withTimeLimit(storage.find(volume, stagingPath), FIND_LIMIT_MS, `finding ${state.handle}`);
  if (found === undefined) {
    await undoStage(parts, state, stagingPath);
    await storage.finishUnmounted(volume);
    log.info({ volume: state.handle, stagingPath }, "no longer mounted; kubelet will stage it when a pod needs it");
    await changeRecord(parts, state, { stagingPath: undefined });
    return;
  }
  if (!state.recorded) await changeRecord(parts, state, { stagingPath, memberMade: true });
  begin(parts, state, found);
  log.info({ volume: state.handle, stagingPath }, "taken over from an earlier agent");
}

/** Of a stage that failed or died on its way: kubelet need not come back, and whoever wants the members elsewhere waits for this. */
async function undoStage({ storage }: StagingParts, state: VolumeState, stagingPath: string): Promise<void> {
  if (!state.held) return;
  await storage.unstage(volumeOf(state.record), stagingPath);
  state.held = false;
}

async function letGo({ storage }: StagingParts, state: VolumeState, mounted: MountedVolume): Promise<void> {
  try {
    await storage.settle(mountedVolumeOf(mounted, state.record));
    state.leavingProblem = undefined;
  } catch (error) {
    if (error instanceof StorageError)
      state.leavingProblem = {
        reason: LASTING[error.code] === undefined ? "WaitingForMember" : "MemberFailed",
        message: error.message,
      };
    throw error;
  }
}

/** The filesystem works without: what is wrong with its spare is only told. */
async function prepareSpares(
  { storage }: StagingParts,
  state: VolumeState,
  mounted: MountedVolume,
  signal: AbortSignal,
): Promise<void> {
  try {
    await storage.prepareSpares(mountedVolumeOf(mounted, state.record), signal);
    state.spareProblem = undefined;
  } catch (error) {
    // Nothing is wrong with it: it has given way.
    if (signal.aborted) return;
    if (error instanceof StorageError) state.spareProblem = error.message;
    throw error;
  }
}

async function remove(
  { storage, records, locks, log }: StagingParts,
  state: VolumeState,
  layout: FilesystemLayout | undefined,
): Promise<void> {
  if (state.mounted !== undefined) return;
  assertNamed(state.record, layout);
  await takeLock(locks, state);
  const volume = volumeOf(state.record);
  await storage.remove(volume);
  state.removed = true;
  state.problem = undefined;
  state.sizeBytes = undefined;
  await records.remove(state.handle);
  state.recorded = false;
  await locks.release(volume.fsid);
  log.info({ volume: state.handle }, "the member has been deleted");
}

/** After an etcd was put back, a layout of the same handle may speak of another logical volume than the one that this node has filled. */
function assertNamed(record: NodeRecord, layout: FilesystemLayout | undefined): void {
  if (record.backend !== "lvm") return;
  const named = layout?.spec.members?.[0]?.source.logicalVolume;
  if (named?.volumeID === record.volumeID && named.deviceClass === record.deviceClass) return;
  throw new StorageError(
    "WrongFilesystem",
    `the FilesystemLayout of ${record.handle} asks for the removal of logical volume ${named?.volumeID} of class ${named?.deviceClass}, and ` +
      `this node has ${record.volumeID} of class ${record.deviceClass}; neither is removed. Take away by hand the one that is not needed`,
  );
}

function begin({ sampler }: StagingParts, state: VolumeState, mounted: MountedVolume): void {
  state.mounted = mounted;
  state.problem = undefined;
  state.operationEndedMs = 0;
  // Whoever had it before may have died between changing the one and the other.
  state.unsettled = true;
  watch(sampler, state, mounted);
}

function watch(sampler: Sampler, { handle, record: { grant } }: VolumeState, mounted: MountedVolume): void {
  if (!("fsType" in mounted)) return; // a raw device: nothing on it can be sampled
  sampler.watch(handle, mounted, grant === undefined ? 0 : grantOf(grant).minAvailableBytes);
}

/** It is taken back by what succeeds: a mount, an unmount, a removal. A look that finds nothing says nothing. */
async function noteProblem(state: VolumeState, work: () => Promise<void>): Promise<void> {
  try {
    await work();
  } catch (error) {
    const reason = error instanceof StorageError ? LASTING[error.code] : undefined;
    if (reason !== undefined) state.problem = { reason, message: (error as StorageError).message };
    throw error;
  }
}

async function changeRecord(
  { records }: StagingParts,
  state: VolumeState,
  change: Partial<Pick<NodeRecord, "stagingPath" | "memberMade">>,
): Promise<void> {
  state.record = { ...state.record, ...change };
  state.recorded = true;
  await saveRecord(records, state, "PowerCut");
}

/** A node that has lost its records may still have the volume mounted under a pod that nobody stages again. */
function unrecordedMount(storage: Storage, state: VolumeState): Promise<string | undefined> {
  if (state.recorded) return Promise.resolve(undefined);
  const looking = storage.mountPath(volumeOf(state.record));
  return withTimeLimit(looking, FIND_LIMIT_MS, `looking for a mount of ${state.handle}`);
}

async function takeLock(locks: FilesystemLocks, { handle, record }: VolumeState): Promise<void> {
  if (await locks.acquire(volumeOf(record).fsid)) return;
  throw new StorageError(
    "DeviceBusy",
    `another agent on this node holds volume ${handle}; wait until it has ended, or end it`,
  );
}

/** The size for a member that is yet to be made. A member that was made once and is missing now is never replaced. */
async function sizeToStage(storage: Storage, { handle, record }: VolumeState): Promise<number> {
  if (record.backend !== "loop") return 0; // Its members were made elsewhere, and have sizes of their own.
  const presentBytes = await storage.sizeBytes(volumeOf(record));
  // 0: made by an agent that died before it could give it a size.
  if (presentBytes !== undefined && presentBytes > 0) return presentBytes;
  if (presentBytes === undefined && record.memberMade)
    throw new StorageError(
      "AlreadyFormatted",
      `member ${record.memberFile} of volume ${handle} was made on this node and is not there any more; bring the file back`,
    );
  if (record.initialSizeBytes === undefined)
    throw new StorageError(
      "AlreadyFormatted",
      `FilesystemLayout ${handle} says no size and the node has no member ${record.memberFile}; nothing is guessed`,
    );
  return record.initialSizeBytes;
}

function removed({ handle }: VolumeState): StorageError {
  return new StorageError("AlreadyFormatted", `the member of volume ${handle} has been deleted; the claim is gone`);
}

function alreadyStaged({ handle }: VolumeState, at: string, wanted: string): StorageError {
  return new StorageError(
    "DeviceBusy",
    `volume ${handle} is staged at ${at}; unstage it before staging it at ${wanted}`,
  );
}
