// A node with one volume, as a look at that volume sees it: what the look asks for succeeds and changes nothing, but for what a case says.

import type { NodeVolume } from "../../src/agent/volumes/node-volume.ts";
import type { ReconcileEnvironment } from "../../src/agent/volumes/reconcile-node-volume.ts";
import type { FilesystemLayout } from "../../src/contracts/kinds/filesystem-layout.ts";
import type { Clock } from "../../src/platform/process/clock.ts";
import { createLogger } from "../../src/platform/process/log.ts";
import { doubleOf } from "../fakes/double-of.ts";

type Storage = ReconcileEnvironment["storage"];
type Records = ReconcileEnvironment["records"];
type Staging = ReconcileEnvironment["staging"];
type Runner = ReconcileEnvironment["runner"];

export interface StepsOfLook {
  readonly storage?: Partial<Storage>;
  readonly records?: Partial<Records>;
  readonly staging?: Partial<Staging>;
  /** Absent: nothing may be started. */
  readonly runner?: Partial<Runner>;
  readonly clock: Clock;
}

export function reconcileEnvironment(
  volume: NodeVolume,
  layout: () => FilesystemLayout,
  { storage, records, staging, runner = {}, clock }: StepsOfLook,
): ReconcileEnvironment {
  return {
    nodeName: "node-a",
    volumes: new Map([[volume.handle, volume]]),
    layouts: doubleOf<ReconcileEnvironment["layouts"]>("ReadableStore", { get: layout }),
    layoutsKnown: () => true,
    storage: doubleOf<Storage>("Storage", { shrinksUnmounted: () => false, members: async () => [], ...storage }),
    records: doubleOf<Records>("NodeRecords", { write: async () => undefined, ...records }),
    staging: doubleOf<Staging>("Staging", { adopt: async () => undefined, ...staging }),
    runner: doubleOf<Runner>("OperationRunner", runner),
    sampler: doubleOf<ReconcileEnvironment["sampler"]>("Sampler", { setMinAvailable: () => undefined }),
    reporter: doubleOf<ReconcileEnvironment["reporter"]>("StatusReporter", { report: async () => undefined }),
    clock,
    bootID: "boot-a",
    log: createLogger("test", "silent"),
  };
}
