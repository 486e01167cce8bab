// Tells the API server what the agent knows: FilesystemLayout.status by server-side apply, on change only, one write per
// volume at a time, and Events where people look. It never decides what to say.

import { FILESYSTEMS } from "../../api/filesystem.ts";
import type { FilesystemLayoutStatus, LastOperation } from "../../api/filesystem-layout.ts";
import type { EventRecorder } from "../../kube/events/events.ts";
import type { KubeObject } from "../../kube/object.ts";
import type { Logger } from "../../process/log.ts";
import type { VolumeState } from "../volumes/volume-state.ts";
import { saysOnlyGeneration } from "./seen-generation.ts";
import { createSharedWrites } from "./shared-writes.ts";
import { announceHold, applyStatus, type StatusWriting } from "./write-status.ts";

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

export interface StatusReporterParts extends StatusWriting {
  readonly events: EventRecorder;
  readonly log: Logger;
}

/** How long the API server may not hear of a layout that was seen and changes nothing. */
const SEEN_LATE_MS = 2000;

export function createStatusReporter(parts: StatusReporterParts): StatusReporter {
  const { events, log } = parts;
  const seen = new Map<string, "Waiting" | "Due">();
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
  const writes = createSharedWrites((handle) =>
    applyStatus(parts, handle, (told, status) => isLate(handle, told, status)),
  );
  const tellSeen = (handle: string): void => {
    if (!seen.has(handle)) return;
    seen.set(handle, "Due");
    writes.next(handle).catch((err: unknown) => log.debug({ volume: handle, err }, "what was seen is told later"));
  };
  const recordEvent = (state: VolumeState, type: "Normal" | "Warning", reason: string, message: string): void => {
    involvedObject(parts, state).then(
      (object) => object !== undefined && events.record(object, type, reason, message),
      (err: unknown) => log.debug({ volume: state.handle, err }, "no object to report an Event on"),
    );
  };
  return {
    announce: (handle) => writes.instead(handle, () => announceHold(parts, handle)),
    report: writes.next,
    operationEnded: (state, { kind, from, outcome, reached, message }) => {
      const type = outcome === "Failed" ? "Warning" : "Normal";
      const why = message === undefined ? "" : `: ${message}`;
      recordEvent(state, type, `${kind}${outcome}`, `${from} → ${reached}${why}`);
    },
    warn: (state, reason, message) => recordEvent(state, "Warning", reason, message),
  };
}

/** The Filesystem, where users look. */
async function involvedObject(
  { client, layouts }: StatusWriting,
  { handle, record: { claimRef } }: VolumeState,
): Promise<KubeObject | undefined> {
  const filesystem =
    claimRef?.namespace === undefined
      ? undefined
      : await client.get(FILESYSTEMS, { namespace: claimRef.namespace, name: claimRef.name });
  return filesystem ?? layouts.get(handle);
}
