// Reports to the API server what the agent knows: FilesystemLayout.status by server-side apply, on change only, one write per volume at a
// time, and Events where people look. A status is written on the very version of the layout that gives the volume to this node: what
// another node says by now is never written over. What is said is layout-status.ts', and when when-to-report.ts'.

import { FILESYSTEMS } from "../../contracts/kinds/filesystem.ts";
import {
  FILESYSTEM_LAYOUTS,
  type FilesystemLayout,
  type FilesystemLayoutStatus,
  type LastOperation,
} from "../../contracts/kinds/filesystem-layout.ts";
import type { KubeObject } from "../../contracts/kubernetes/object.ts";
import { API_VERSION, FIELD_MANAGERS } from "../../contracts/names.ts";
import { withDetail } from "../../contracts/printable.ts";
import { formatBytes, parseQuantity } from "../../contracts/quantities/quantity.ts";
import type { HoldReason } from "../../contracts/reasons.ts";
import type { ReadableStore } from "../../platform/kube/cache/store.ts";
import type { ApplyConfiguration, KubeClient } from "../../platform/kube/client/client.ts";
import { type Applier, type OwnWrites, onLatest, versionOf } from "../../platform/kube/client/writes.ts";
import type { EventRecorder } from "../../platform/kube/events/events.ts";
import { KubeError } from "../../platform/kube/kube-error.ts";
import type { Clock } from "../../platform/process/clock.ts";
import type { Logger } from "../../platform/process/log.ts";
import { LayoutError } from "../gather/layout-record.ts";
import type { NodeVolume, VolumesByHandle } from "../volumes/node-volume.ts";
import { reduce } from "../volumes/volume-events.ts";
import type { NodeVolumeState } from "../volumes/volume-state.ts";
import { layoutStatus } from "./layout-status.ts";
import { type SeenLayout, whenToReport } from "./when-to-report.ts";

export interface StatusReporter {
  /**
   * Says that this node holds a volume whose members other processes attach and detach, and marks it as held. Rejects with nothing
   * said: LayoutError when its layout does not give it to this node, or no longer does; KubeError when the API server did not take the
   * report.
   */
  announce(handle: string): Promise<void>;
  /**
   * Resolves when what is known at the time of the call has been applied; rejects with KubeError when it could not. What is only on its way,
   * and that a layout was seen which changes nothing, is applied a little later (when-to-report.ts).
   */
  report(handle: string): Promise<void>;
  operationEnded(state: NodeVolumeState, operation: LastOperation): void;
  /** A Warning on the Filesystem, or on its layout where there is none. */
  warn(state: NodeVolumeState, reason: string, message: string): void;
}

export interface StatusReporterParts extends StatusWriting {
  readonly events: EventRecorder;
  readonly log: Logger;
}

/** How long the API server may not hear of what is on its way: an extend by a member is over by then. */
const LATE_MS = 3000;

export function createStatusReporter(parts: StatusReporterParts): StatusReporter {
  const { events, log } = parts;
  const late = new Map<string, "Waiting" | "Due">();
  const seen = new WeakMap<NodeVolume, SeenLayout>();
  /** True where it may be reported later. */
  const mayWait = (volume: NodeVolume, live: FilesystemLayout, status: FilesystemLayoutStatus): boolean => {
    const { handle } = volume;
    const when = whenToReport(seen.get(volume), live, status);
    const isDue = late.get(handle) === "Due";
    if (when !== "Later" || isDue) late.delete(handle);
    const { metadata, spec } = live;
    if (when === "WithNext") {
      seen.set(volume, { reportedGeneration: live.status?.observedGeneration, generation: metadata.generation, spec });
      return true;
    }
    if (when === "Now" || isDue) {
      seen.set(volume, { reportedGeneration: metadata.generation, generation: metadata.generation, spec });
      return false;
    }
    if (!late.has(handle)) {
      late.set(handle, "Waiting");
      setTimeout(() => reportLate(handle), LATE_MS).unref();
    }
    return true;
  };
  const writes = createSharedWrites((handle) => applyStatus(parts, handle, mayWait));
  const reportLate = (handle: string): void => {
    if (!late.has(handle)) return;
    late.set(handle, "Due");
    writes.next(handle).catch((err: unknown) => log.debug({ volume: handle, err }, "what was seen is reported later"));
  };
  const recordEvent = (state: NodeVolumeState, type: "Normal" | "Warning", reason: string, message: string): void => {
    involvedObject(parts, state).then(
      (object) => object !== undefined && events.record(object, type, reason, message),
      (err: unknown) => log.debug({ volume: state.handle, err }, "no object to report an Event on"),
    );
  };
  return {
    announce: (handle) => writes.instead(handle, () => announceHold(parts, handle)),
    report: writes.next,
    operationEnded: (state, operation) => {
      const { kind, outcome, emergency, message } = operation;
      const isNotable = outcome === "Failed" || emergency === true;
      recordEvent(
        state,
        isNotable ? "Warning" : "Normal",
        `${kind}${outcome}`,
        withDetail(changeText(operation), message),
      );
    },
    warn: (state, reason, message) => recordEvent(state, "Warning", reason, message),
  };
}

function changeText({ from, reached, emergency }: LastOperation): string {
  const [before, after] = [from, reached].map((size) => formatBytes(parseQuantity(size)));
  return `${before} → ${after}${emergency === true ? ", by the emergency grant: the engine has not decided it" : ""}`;
}

/** The Filesystem, where users look. */
async function involvedObject(
  { client, layouts }: StatusWriting,
  { handle, record: { claimRef } }: NodeVolumeState,
): Promise<KubeObject | undefined> {
  const filesystem =
    claimRef?.namespace === undefined
      ? undefined
      : await client.get(FILESYSTEMS, { namespace: claimRef.namespace, name: claimRef.name });
  return filesystem ?? layouts.get(handle);
}

export interface StatusWriting {
  readonly nodeName: string;
  readonly volumes: VolumesByHandle;
  readonly layouts: ReadableStore<FilesystemLayout>;
  readonly client: Pick<KubeClient, "get">;
  readonly applier: Applier;
  /** Of layouts: the next status is said on what the last one has left. */
  readonly ownWrites: OwnWrites<FilesystemLayout>;
  readonly clock: Clock;
}

const APPLY_OPTIONS = { fieldManager: FIELD_MANAGERS.agent, force: true, subresource: "status" } as const;

/**
 * `mayWait`: whether what would be said of that layout is said later. Nothing is written where the volume is not this node's. Throws
 * KubeError.
 */
async function applyStatus(
  writing: StatusWriting,
  handle: string,
  mayWait: (volume: NodeVolume, live: FilesystemLayout, status: FilesystemLayoutStatus) => boolean,
): Promise<void> {
  const { volumes, layouts, nodeName, ownWrites } = writing;
  await onLatest(ownWrites.latest(layouts.get(handle)), layoutOf(writing, handle), async (live) => {
    const volume = volumes.get(handle);
    // Another node's by now: two agents that overwrite each other's status would never end.
    if (volume === undefined || live?.spec.nodeName !== nodeName) return;
    const configuration = configurationOf(writing, volume.state, live);
    if (mayWait(volume, live, configuration.status)) return;
    await applyKnown(writing, configuration, live);
  });
}

/**
 * The definition that an API server still has while this is rolled out may not know what was added last, and refuses the whole status for
 * it: then the rest is said without it.
 */
async function applyKnown(
  writing: StatusWriting,
  configuration: StatusConfiguration,
  live: FilesystemLayout,
): Promise<void> {
  const { applier, ownWrites, layouts } = writing;
  // Read before the write: what the cache shows by its end may be newer than the answer.
  const cached = layouts.get(live.metadata.name);
  try {
    const answer = await applier.applyOnChange(
      "agent-status/apply",
      FILESYSTEM_LAYOUTS,
      configuration,
      APPLY_OPTIONS,
      live,
    );
    if (answer !== undefined) ownWrites.wrote(cached, answer);
  } catch (error) {
    const known = error instanceof KubeError ? withoutUnknown(configuration.status, error.message) : undefined;
    if (known === undefined) throw error;
    await applyKnown(writing, { ...configuration, status: known }, live);
  }
}

/** Without at least one field that the refusal names. Undefined: it is for something else. */
function withoutUnknown(status: FilesystemLayoutStatus, refusal: string): FilesystemLayoutStatus | undefined {
  const { immovable, members, lastOperation, ...others } = status;
  const isImmovable = immovable !== undefined && refusal.includes(".status.immovable: field not declared");
  const isAllocated = /\.status\.members\S*\.allocated: field not declared/.test(refusal);
  if (!isImmovable && !isAllocated) return undefined;
  return {
    ...others,
    ...(members && { members: isAllocated ? members.map(({ allocated: _unknown, ...member }) => member) : members }),
    ...(immovable === undefined || isImmovable ? {} : { immovable }),
    ...(lastOperation && { lastOperation: isImmovable ? withoutImmovable(lastOperation) : lastOperation }),
  };
}

/** That reason holds as long as the field stands: without it, its floor would be asked for again and again. */
function withoutImmovable(last: LastOperation): LastOperation {
  return last.reason === "DataImmovable" ? { ...last, reason: "ShrinkFloorReached" satisfies HoldReason } : last;
}

/**
 * A process that takes the volume from this node afterwards finds this hold. Throws LayoutError where the volume is not this node's, and
 * KubeError.
 */
async function announceHold(writing: StatusWriting, handle: string): Promise<void> {
  const { volumes, nodeName, applier, ownWrites, layouts } = writing;
  const read = layoutOf(writing, handle);
  await onLatest(await read(), read, async (live) => {
    const volume = volumes.get(handle);
    if (volume === undefined || live?.spec.nodeName !== nodeName)
      throw new LayoutError(
        `FilesystemLayout ${handle} gives the volume to ${live?.spec.nodeName ?? "no node"}, not to ${nodeName}; nothing of it is touched`,
      );
    const announced = { type: "HoldAnnounced" } as const;
    const configuration = configurationOf(writing, reduce(volume.state, announced), live);
    const cached = layouts.get(handle);
    const answer = await applier.applyOnChange("span/announce", FILESYSTEM_LAYOUTS, configuration, APPLY_OPTIONS, live);
    if (answer !== undefined) ownWrites.wrote(cached, answer);
    volume.dispatch(announced);
  });
}

function layoutOf({ client }: StatusWriting, handle: string): () => Promise<FilesystemLayout | undefined> {
  return () => client.get(FILESYSTEM_LAYOUTS, { name: handle });
}

type StatusConfiguration = ApplyConfiguration & { readonly status: FilesystemLayoutStatus };

function configurationOf(
  { nodeName, clock }: StatusWriting,
  state: NodeVolumeState,
  live: FilesystemLayout,
): StatusConfiguration {
  return {
    apiVersion: API_VERSION,
    kind: FILESYSTEM_LAYOUTS.kind,
    metadata: versionOf(live),
    status: layoutStatus({ state, nodeName, nowMs: clock.nowMs(), live }),
  };
}

/** One write at a time for each volume: who asks during one shares the next, which says what is known by then. */
export interface SharedWrites {
  /** Resolves when a write that began after the call has ended; rejects as that write does. */
  next(handle: string): Promise<void>;
  /** Writes otherwise, once none is under way: what knows less must not come after it. */
  instead(handle: string, write: () => Promise<void>): Promise<void>;
}

export function createSharedWrites(write: (handle: string) => Promise<void>): SharedWrites {
  const writing = new Map<string, Promise<void>>();
  const waiting = new Map<string, Promise<void>>();
  const begin = (handle: string, work: () => Promise<void>): Promise<void> => {
    const begun = work().finally(() => writing.delete(handle));
    writing.set(handle, begun);
    return begun;
  };
  const next = (handle: string): Promise<void> => {
    const underWay = writing.get(handle);
    if (underWay === undefined) return begin(handle, () => write(handle));
    const shared =
      waiting.get(handle) ??
      underWay
        .catch(() => {})
        .then(() => {
          waiting.delete(handle);
          return next(handle);
        });
    waiting.set(handle, shared);
    return shared;
  };
  return {
    next,
    instead: async (handle, work) => {
      for (let other = writing.get(handle); other !== undefined; other = writing.get(handle))
        await other.catch(() => {});
      await begin(handle, work);
    },
  };
}
