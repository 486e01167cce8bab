// Tells the API server what the agent knows: FilesystemLayout.status by server-side apply, on change only, one write per
// volume at a time, and Events where people look. It never decides what to say.

import { FILESYSTEMS } from "../api/filesystem.ts";
import {
  FILESYSTEM_LAYOUTS,
  type FilesystemLayout,
  type FilesystemLayoutStatus,
  type LastOperation,
} from "../api/filesystem-layout.ts";
import { API_VERSION, FIELD_MANAGERS } from "../api/names.ts";
import type { Applier } from "../kube/apply.ts";
import type { ApplyConfiguration, KubeClient } from "../kube/client.ts";
import type { EventRecorder } from "../kube/events.ts";
import { isKubeError } from "../kube/kube-error.ts";
import type { KubeObject } from "../kube/object.ts";
import type { ReadableStore } from "../kube/store.ts";
import type { Clock } from "../process/clock.ts";
import type { Logger } from "../process/log.ts";
import { LayoutError } from "./layout-record.ts";
import { layoutStatus } from "./layout-status.ts";
import { saysOnlyGeneration } from "./seen-generation.ts";
import type { VolumeState, VolumeStates } from "./volume-state.ts";

export interface StatusReporter {
  /**
   * Says that this node holds a volume whose members others attach and detach, and marks it as held. Rejects, with nothing said, with
   * LayoutError when its layout does not give it to this node (any more), and with KubeError when nobody could be told.
   */
  announce(handle: string): Promise<void>;
  /**
   * Resolves when what is known at the time of the call has been applied; rejects with KubeError when it could not. That a layout was
   * seen which changes nothing is applied a little later.
   */
  report(handle: string): Promise<void>;
  operationEnded(state: VolumeState, operation: LastOperation): void;
  /** A Warning on the Filesystem, or on its layout where there is none. */
  warn(state: VolumeState, reason: string, message: string): void;
}

export interface StatusReporterParts {
  readonly nodeName: string;
  readonly states: VolumeStates;
  readonly layouts: ReadableStore<FilesystemLayout>;
  readonly client: Pick<KubeClient, "get">;
  readonly applier: Applier;
  readonly events: EventRecorder;
  readonly clock: Clock;
  readonly log: Logger;
}

/** How long the API server may not hear of a layout that was seen and changes nothing. */
const SEEN_LATE_MS = 2000;

export function createStatusReporter(parts: StatusReporterParts): StatusReporter {
  const writing = new Map<string, Promise<void>>();
  const waiting = new Map<string, Promise<void>>();
  const seen = new Map<string, "Waiting" | "Due">();

  /** Callers during a write share the next one, which says what is known by then. */
  const report = (handle: string): Promise<void> => {
    const underWay = writing.get(handle);
    if (underWay === undefined) return begin(handle);
    const shared =
      waiting.get(handle) ??
      underWay
        .catch(() => {})
        .then(() => {
          waiting.delete(handle);
          return report(handle);
        });
    waiting.set(handle, shared);
    return shared;
  };
  /** True where it may be told later. */
  const isLate = (
    handle: string,
    told: FilesystemLayoutStatus | undefined,
    status: FilesystemLayoutStatus,
  ): boolean => {
    if (seen.get(handle) === "Due" || !saysOnlyGeneration(told, status)) {
      seen.delete(handle);
      return false;
    }
    if (!seen.has(handle)) {
      seen.set(handle, "Waiting");
      setTimeout(() => tellSeen(handle), SEEN_LATE_MS).unref();
    }
    return true;
  };
  const tellSeen = (handle: string): void => {
    if (!seen.has(handle)) return;
    seen.set(handle, "Due");
    report(handle).catch((err: unknown) => parts.log.debug({ volume: handle, err }, "what was seen is told later"));
  };
  const begin = (handle: string, apply = applyStatus): Promise<void> => {
    const write = apply(parts, handle, isLate).finally(() => writing.delete(handle));
    writing.set(handle, write);
    return write;
  };
  const recordEvent = (state: VolumeState, type: "Normal" | "Warning", reason: string, message: string): void => {
    involvedObject(parts, state).then(
      (object) => object !== undefined && parts.events.record(object, type, reason, message),
      (err: unknown) => parts.log.debug({ volume: state.handle, err }, "no object to report an Event on"),
    );
  };
  return {
    announce: async (handle) => {
      // A report that knows less and is under way must not be written after it.
      for (let other = writing.get(handle); other !== undefined; other = writing.get(handle))
        await other.catch(() => {});
      await begin(handle, announceHold);
    },
    report,
    operationEnded: (state, operation) => {
      const { kind, from, outcome, reached, message } = operation;
      const type = outcome === "Failed" ? "Warning" : "Normal";
      recordEvent(
        state,
        type,
        `${kind}${outcome}`,
        `${from} → ${reached}${message === undefined ? "" : `: ${message}`}`,
      );
    },
    warn: (state, reason, message) => recordEvent(state, "Warning", reason, message),
  };
}

const APPLY_OPTIONS = { fieldManager: FIELD_MANAGERS.agent, force: true, subresource: "status" } as const;
/** Of writes of one report: somebody else has written to the layout right before each. */
const CONFLICTS_LIMIT = 8;

/** On the very version that gives the volume to this node: what another node says by now is never written over. */
async function applyStatus(
  parts: StatusReporterParts,
  handle: string,
  isLate: (handle: string, told: FilesystemLayoutStatus | undefined, status: FilesystemLayoutStatus) => boolean,
): Promise<void> {
  const { client, states, layouts, nodeName, applier } = parts;
  let live = layouts.get(handle);
  for (let attempt = 1; ; attempt += 1) {
    const state = states.get(handle);
    // Another node's by now: two agents that overwrite each other's status would never end.
    if (state === undefined || live?.spec.nodeName !== nodeName) return;
    const configuration = configurationOf(parts, state, live);
    if (isLate(handle, live.status, configuration.status)) return;
    try {
      await applier.applyOnChange("agent-status/apply", FILESYSTEM_LAYOUTS, configuration, APPLY_OPTIONS, live);
      return;
    } catch (error) {
      if (!isKubeError(error, "Conflict") || attempt === CONFLICTS_LIMIT) throw error;
      live = await client.get(FILESYSTEM_LAYOUTS, { name: handle });
    }
  }
}

/** On the very version that gives the volume to this node: whoever takes it back afterwards meets what is said here. */
async function announceHold(parts: StatusReporterParts, handle: string): Promise<void> {
  const { client, states, nodeName, applier } = parts;
  for (let attempt = 1; ; attempt += 1) {
    const live = await client.get(FILESYSTEM_LAYOUTS, { name: handle });
    const state = states.get(handle);
    if (state === undefined || live?.spec.nodeName !== nodeName)
      throw new LayoutError(
        `FilesystemLayout ${handle} gives the volume to ${live?.spec.nodeName ?? "no node"}, not to ${nodeName}; nothing of it is touched`,
      );
    const configuration = configurationOf(parts, { ...state, held: true }, live);
    try {
      await applier.applyOnChange("span/announce", FILESYSTEM_LAYOUTS, configuration, APPLY_OPTIONS, live);
      state.held = true;
      return;
    } catch (error) {
      if (!isKubeError(error, "Conflict") || attempt === CONFLICTS_LIMIT) throw error;
    }
  }
}

function configurationOf(
  { nodeName, clock }: StatusReporterParts,
  state: VolumeState,
  live: FilesystemLayout,
): ApplyConfiguration & { readonly status: FilesystemLayoutStatus } {
  const { name, uid, resourceVersion } = live.metadata;
  return {
    apiVersion: API_VERSION,
    kind: FILESYSTEM_LAYOUTS.kind,
    metadata: { name, uid, ...(resourceVersion === undefined ? {} : { resourceVersion }) },
    status: layoutStatus({ state, nodeName, nowMs: clock.nowMs(), live }),
  };
}

/** The Filesystem, where users look. */
async function involvedObject(
  { client, layouts }: StatusReporterParts,
  { handle, record: { claimRef } }: VolumeState,
): Promise<KubeObject | undefined> {
  const filesystem =
    claimRef?.namespace === undefined
      ? undefined
      : await client.get(FILESYSTEMS, { namespace: claimRef.namespace, name: claimRef.name });
  return filesystem ?? layouts.get(handle);
}
