// What is done about a node's volumes: each is looked at in its turn of one queue, staged in its own lane, and resized by one
// runner. Only wiring.

import { createWorkQueue, type WorkQueue } from "../kube/work-queue.ts";
import type { CommandPort } from "../process/command-port.ts";
import type { FilePort } from "../process/file-port.ts";
import { createFilesystemLocks } from "./filesystem-lock.ts";
import { type ReconcileEnvironment, reconcileVolume } from "./reconcile-volume.ts";
import { createOperationRunner, type OperationEnvironment, type OperationRunner } from "./run-operation.ts";
import { createStaging, type Staging } from "./staging.ts";
import { createVolumeLanes, type VolumeLanes } from "./volume-lanes.ts";

export interface VolumeWorkParts
  extends Omit<ReconcileEnvironment, "staging" | "runner">,
    Pick<OperationEnvironment, "metrics"> {
  readonly lockDirectory: string;
  readonly commands: CommandPort;
  readonly files: FilePort;
}

export interface VolumeWork {
  readonly runner: OperationRunner;
  readonly lanes: VolumeLanes;
  readonly staging: Staging;
  readonly queue: WorkQueue;
}

/** Volumes at work at the same time: a hung one keeps a place until its time limit. */
const RECONCILE_CONCURRENCY = 32;
const RETRY_BACK_OFF = { baseMs: 200, capMs: 30_000 };

export function createVolumeWork(parts: VolumeWorkParts): VolumeWork {
  const { log, lockDirectory, files, commands } = parts;
  const changed = (handle: string): void => queue.add(handle);
  const runner = createOperationRunner({ ...parts, ended: changed });
  const lanes = createVolumeLanes();
  const staging = createStaging({
    ...parts,
    locks: createFilesystemLocks(lockDirectory, files, commands),
    lanes,
    quiesce: (state) => runner.cancelAndWait(state, "the volume is being unstaged"),
    changed,
  });
  const queue = createWorkQueue({
    name: "volumes",
    concurrency: RECONCILE_CONCURRENCY,
    backOff: RETRY_BACK_OFF,
    log,
    run: (handle) => reconcileVolume({ ...parts, staging, runner }, handle),
  });
  return { runner, lanes, staging, queue };
}
