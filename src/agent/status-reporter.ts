// Tells the API server what the agent knows: FilesystemLayout.status by server-side apply, on change only, one write per
// volume at a time, and Events where people look. It never decides what to say.

import { FILESYSTEMS } from "../api/filesystem.ts";
import { FILESYSTEM_LAYOUTS, type FilesystemLayout, type LastOperation } from "../api/filesystem-layout.ts";
import { API_VERSION, FIELD_MANAGERS } from "../api/names.ts";
import type { Applier } from "../kube/apply.ts";
import type { KubeClient } from "../kube/client.ts";
import type { EventRecorder } from "../kube/events.ts";
import type { KubeObject } from "../kube/object.ts";
import type { ReadableStore } from "../kube/store.ts";
import type { Clock } from "../process/clock.ts";
import type { Logger } from "../process/log.ts";
import { layoutStatus } from "./layout-status.ts";
import type { VolumeState, VolumeStates } from "./volume-state.ts";

export interface StatusReporter {
  /** Resolves when what is known at the time of the call has been applied; rejects with KubeError when it could not. */
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

export function createStatusReporter(parts: StatusReporterParts): StatusReporter {
  const writing = new Map<string, Promise<void>>();
  const waiting = new Map<string, Promise<void>>();

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
          return begin(handle);
        });
    waiting.set(handle, shared);
    return shared;
  };
  const begin = (handle: string): Promise<void> => {
    const write = applyStatus(parts, handle).finally(() => writing.delete(handle));
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

async function applyStatus(parts: StatusReporterParts, handle: string): Promise<void> {
  const { states, layouts, nodeName, clock, applier } = parts;
  const state = states.get(handle);
  const live = layouts.get(handle);
  // Another node's by now: two agents that overwrite each other's status would never end.
  if (state === undefined || live?.spec.nodeName !== nodeName) return;
  const configuration = {
    apiVersion: API_VERSION,
    kind: FILESYSTEM_LAYOUTS.kind,
    metadata: { name: handle, uid: live.metadata.uid },
    status: layoutStatus({ state, nodeName, nowMs: clock.nowMs(), live }),
  };
  const options = { fieldManager: FIELD_MANAGERS.agent, force: true, subresource: "status" } as const;
  await applier.applyOnChange("agent-status/apply", FILESYSTEM_LAYOUTS, configuration, options, live);
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
