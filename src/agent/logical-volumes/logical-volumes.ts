// This node's LogicalVolumes: followed by watch, made and told several at a time, and looked over whenever lvmd tells a change. Only wiring.
import type { FilesystemLayout } from "../../api/filesystem-layout.ts";
import { LOGICAL_VOLUMES, type LogicalVolume } from "../../api/logical-volume.ts";
import { createReflector } from "../../kube/cache/reflector.ts";
import type { ReadableStore } from "../../kube/cache/store.ts";
import { createApplier } from "../../kube/client/apply-on-change.ts";
import type { KubeClient } from "../../kube/client/client.ts";
import { createEventRecorder } from "../../kube/events/events.ts";
import { createWorkQueue } from "../../kube/queue/work-queue.ts";
import type { Clock } from "../../process/clock.ts";
import type { Logger } from "../../process/log.ts";
import { isRemovalWanted } from "../gather/layout-record.ts";
import type { NodeLvm } from "../lvmd-client/node-lvm.ts";
import type { VolumeLanes } from "../volumes/volume-lanes.ts";
import { reconcileLogicalVolume } from "./reconcile-logical-volume.ts";
import { createVolumeListing } from "./survey-volumes.ts";

export interface LogicalVolumesParts {
  readonly nodeName: string;
  readonly lvm: NodeLvm;
  readonly lanes: VolumeLanes;
  readonly layouts: ReadableStore<FilesystemLayout>;
  /** Resolves when the API server has told them all. */
  readonly layoutsSynced: Promise<void>;
  readonly client: KubeClient;
  readonly clock: Clock;
  readonly log: Logger;
}

export interface LogicalVolumes {
  /** The volume's size may have changed. */
  look(name: string): void;
  orphanCounts(): ReadonlyMap<string, number>;
  stop(): Promise<void>;
}

/** Volumes that are made at the same time; lvmd makes one at a time in each volume group. */
const CONCURRENCY = 16;
const RETRY_BACK_OFF = { baseMs: 200, capMs: 5000 };
/** What changes together is looked at once. */
const LISTING_DELAY_MS = 1000;

export function startLogicalVolumes(parts: LogicalVolumesParts): LogicalVolumes {
  const { nodeName, lvm, lanes, layouts, client, clock, log } = parts;
  const events = createEventRecorder({ client, component: "tidemark-agent", nowMs: clock.nowMs, log });
  const reflector = createReflector({ client, resource: LOGICAL_VOLUMES, log });
  const isBeingRemoved = (name: string): boolean => {
    const layout = layouts.get(name);
    return layout !== undefined && isRemovalWanted(layout);
  };
  const applier = createApplier(client);
  const volumes = reflector.store;
  const isMember = (volumeID: string): boolean =>
    layouts.list().some(({ spec }) => spec.members?.some(({ source }) => source.logicalVolume?.volumeID === volumeID));
  const making = { nodeName, lvmd: lvm.calls, client, isBeingRemoved, isMember };
  const environment = { ...making, volumes, lanes, applier, events, log };
  const queue = createWorkQueue({
    name: "logical volumes",
    concurrency: CONCURRENCY,
    backOff: RETRY_BACK_OFF,
    log,
    run: (name) => reconcileLogicalVolume(environment, name),
  });
  const listing = createVolumeListing({
    nodeName,
    lvmd: lvm.calls,
    classes: lvm.classes,
    objects: () => volumes.list(),
    layouts: () => layouts.list(),
    changed: queue.add,
    events,
    log,
  });
  const listings = createWorkQueue({
    name: "lists of volumes",
    concurrency: 1,
    backOff: RETRY_BACK_OFF,
    log,
    run: async () => {
      await listing.look();
      return "done";
    },
  });
  const list = (): void => listings.addAfter("all classes", LISTING_DELAY_MS);
  reflector.start();
  // Whether a volume is wanted, and named by anybody, only both of them tell.
  void Promise.all([parts.layoutsSynced, reflector.synced]).then(() => {
    const isHere = ({ spec }: LogicalVolume): boolean => spec.nodeName === nodeName;
    const add = (volume: LogicalVolume): void => {
      if (isHere(volume)) queue.add(volume.metadata.name);
    };
    const update = (volume: LogicalVolume): void => {
      add(volume);
      // What was begun for it may be an orphan from now on.
      if (isHere(volume) && volume.status?.code !== undefined) list();
    };
    reflector.subscribe({ added: add, updated: update, deleted: (volume) => (isHere(volume) ? list() : undefined) });
    lvm.classes.subscribe(list);
    list();
  });
  return {
    look: queue.add,
    orphanCounts: listing.orphanCounts,
    stop: async () => {
      await Promise.all([reflector.stop(), queue.stop(), listings.stop()]);
      await events.flush();
    },
  };
}
