// What is done about a node's volumes: each is looked at in its turn of one queue, staged in its own lane, and resized by one
// runner. Only wiring, and how it ends.

import { createWorkQueue, type WorkQueue } from "../../kube/queue/work-queue.ts";
import type { CommandPort } from "../../process/command-port.ts";
import type { FilePort } from "../../process/file-port.ts";
import { createFilesystemLocks } from "../apply/filesystem-lock.ts";
import type { OperationEnvironment } from "../apply/record-operation.ts";
import { createOperationRunner, type OperationRunner } from "../apply/run-operation.ts";
import { shrinkAtUnmount } from "../apply/shrink-after-unmount.ts";
import { createStaging, type Staging, type StagingParts } from "../apply/staging.ts";
import { type ReconcileEnvironment, reconcileVolume } from "./reconcile-node-volume.ts";
import { createVolumeLanes, type VolumeLanes } from "./volume-lanes.ts";

export interface VolumeWorkParts
  extends Omit<ReconcileEnvironment, "staging" | "runner">,
    Pick<OperationEnvironment, "metrics">,
    Pick<StagingParts, "changed"> {
  readonly lockDirectory: string;
  readonly commands: CommandPort;
  readonly files: FilePort;
  readonly resized: (handle: string) => void;
}

export interface VolumeWork {
  readonly runner: OperationRunner;
  readonly lanes: VolumeLanes;
  readonly staging: Staging;
  readonly queue: WorkQueue;
  /** Begins nothing more, and ends shrinks where they are: nobody would watch over them. Extends are left to the kernel. */
  stop(): Promise<void>;
}

/** Volumes at work at the same time: a hung one keeps a place until its time limit. */
const RECONCILE_CONCURRENCY = 32;
const RETRY_BACK_OFF = { baseMs: 200, capMs: 30_000 };

export function createVolumeWork(parts: VolumeWorkParts): VolumeWork {
  const { log, lockDirectory, files, commands, changed, resized } = parts;
  const ended = (handle: string): void => {
    changed(handle);
    resized(handle);
  };
  const runner = createOperationRunner({ ...parts, ended });
  const lanes = createVolumeLanes();
  const staging = createStaging({
    ...parts,
    locks: createFilesystemLocks(lockDirectory, files, commands),
    lanes,
    shrinkAtUnmount: (state) => shrinkAtUnmount({ ...parts, runner }, state),
    quiesce: (state) => runner.cancelAndWait(state, "the volume is being unstaged"),
  });
  const queue = createWorkQueue({
    name: "volumes",
    concurrency: RECONCILE_CONCURRENCY,
    backOff: RETRY_BACK_OFF,
    log,
    run: (handle) => reconcileVolume({ ...parts, staging, runner }, handle),
  });
  const endShrinks = async (): Promise<void> => {
    const shrinking = [...parts.states.values()].filter(({ running }) => running?.operation.kind === "Shrink");
    for (const { handle } of shrinking) log.info({ volume: handle }, "the agent ends, and cancels its shrink");
    await Promise.all(shrinking.map((state) => runner.cancelAndWait(state, "the agent ends")));
  };
  const stop = async (): Promise<void> => {
    // Not after the queue: what it still runs may wait for long.
    await Promise.all([queue.stop(), endShrinks()]);
    await endShrinks(); // one that was about to begin
  };
  return { runner, lanes, staging, queue, stop };
}
