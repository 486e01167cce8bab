// This node's LogicalVolumes: followed by watch, made and reported several at a time, and surveyed whenever lvmd reports a change. Volumes
// whose size differs from their status are reconciled, and volumes that no object names are reported.

import type { LogicalVolume as ListedVolume } from "../../contracts/gen/topolvm/lvmd.ts";
import type { FilesystemLayout } from "../../contracts/kinds/filesystem-layout.ts";
import { LOGICAL_VOLUMES, type LogicalVolume } from "../../contracts/kinds/logical-volume.ts";
import { NODE_STORAGES } from "../../contracts/kinds/node-storage.ts";
import { API_VERSION, GUARD_TAG } from "../../contracts/names.ts";
import { withDetail } from "../../contracts/printable.ts";
import { parseQuantity } from "../../contracts/quantities/quantity.ts";
import { createReflector, type Reflector } from "../../platform/kube/cache/reflector.ts";
import type { ReadableStore } from "../../platform/kube/cache/store.ts";
import type { KubeClient } from "../../platform/kube/client/client.ts";
import { createApplier } from "../../platform/kube/client/writes.ts";
import { createEventRecorder, type EventRecorder } from "../../platform/kube/events/events.ts";
import { createWorkQueue } from "../../platform/kube/queue/work-queue.ts";
import { BACK_OFFS } from "../../platform/process/async/back-off.ts";
import type { KeyedQueue } from "../../platform/process/async/keyed-queue.ts";
import type { Clock } from "../../platform/process/clock.ts";
import type { Logger } from "../../platform/process/log.ts";
import { isRemovalWanted } from "../gather/layout-record.ts";
import type { DeviceClasses, LvmdCalls } from "../lvmd-client/lvmd-calls.ts";
import type { NodeLvm } from "../lvmd-client/node-lvm.ts";
import { taggedVolumeUID, UNMOUNTED_SHRINK_TAG } from "../storage/lvm/logical-volume.ts";
import { reconcileLogicalVolume } from "./reconcile-logical-volume.ts";

export interface LogicalVolumesParts {
  readonly nodeName: string;
  readonly lvm: NodeLvm;
  readonly queues: KeyedQueue;
  readonly layouts: ReadableStore<FilesystemLayout>;
  /** Resolves when `layouts` holds all layouts of the API server. */
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
/** Changes within this time share one listing. */
const LISTING_DELAY_MS = 1000;

export function startLogicalVolumes(parts: LogicalVolumesParts): LogicalVolumes {
  const { nodeName, lvm, queues, layouts, client, clock, log } = parts;
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
  const environment = { ...making, volumes, queues, applier, events, log };
  const queue = createWorkQueue({
    name: "logical volumes",
    concurrency: CONCURRENCY,
    backOff: BACK_OFFS.peer,
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
    backOff: BACK_OFFS.peer,
    log,
    run: async () => {
      await listing.look();
      return "done";
    },
  });
  const list = (): void => listings.addAfter("all classes", LISTING_DELAY_MS);
  reflector.start();
  // Only layouts and LogicalVolumes together say whether a volume is wanted, and whether an object names it.
  void Promise.all([parts.layoutsSynced, reflector.synced]).then(() => {
    follow(reflector, nodeName, queue.add, list);
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

/** Queues each of this node's volumes when it changes, and has them listed when one ends or fails. */
function follow(
  reflector: Reflector<LogicalVolume>,
  nodeName: string,
  look: (name: string) => void,
  list: () => void,
): void {
  const isHere = ({ spec }: LogicalVolume): boolean => spec.nodeName === nodeName;
  const add = (volume: LogicalVolume): void => {
    if (isHere(volume)) look(volume.metadata.name);
  };
  const update = (volume: LogicalVolume): void => {
    add(volume);
    // What was begun for it may be an orphan from now on.
    if (isHere(volume) && volume.status?.code !== undefined) list();
  };
  reflector.subscribe({ added: add, updated: update, deleted: (volume) => (isHere(volume) ? list() : undefined) });
}

export interface ListingParts {
  readonly nodeName: string;
  readonly lvmd: Pick<LvmdCalls, "volumes">;
  readonly classes: DeviceClasses;
  /** Of the whole cluster. */
  readonly objects: () => readonly LogicalVolume[];
  readonly layouts: () => readonly FilesystemLayout[];
  readonly changed: (name: string) => void;
  readonly events: EventRecorder;
  readonly log: Logger;
}

export interface VolumeListing {
  /** One look. Rejects with LvmdError. */
  look(): Promise<void>;
  /** By device class, as last seen. */
  orphanCounts(): ReadonlyMap<string, number>;
}

function createVolumeListing(parts: ListingParts): VolumeListing {
  let counts = new Map<string, number>();
  let reported = new Set<string>();
  return {
    look: async () => {
      const present = new Map<string, number>();
      const seen = new Set<string>();
      for (const { name: deviceClass, problem } of parts.classes.list() ?? []) {
        if (problem !== "") continue;
        const listed = await parts.lvmd.volumes(deviceClass);
        for (const name of resizedAmong(parts, deviceClass, listed)) parts.changed(name);
        const orphans = orphansAmong(listed, parts.objects(), parts.layouts());
        present.set(deviceClass, orphans.length);
        for (const { name } of orphans) {
          seen.add(name);
          if (!reported.has(name)) report(parts, deviceClass, name);
        }
      }
      [counts, reported] = [present, seen];
    },
    orphanCounts: () => counts,
  };
}

function resizedAmong(
  { nodeName, objects }: ListingParts,
  deviceClass: string,
  listed: readonly ListedVolume[],
): string[] {
  const sizes = new Map(listed.map(({ name, sizeBytes }) => [name, sizeBytes]));
  return objects()
    .filter(({ spec }) => spec.nodeName === nodeName && spec.deviceClass === deviceClass)
    .filter(({ status }) => {
      const sizeBytes = sizes.get(status?.volumeID ?? "");
      return (
        sizeBytes !== undefined && status?.currentSize !== undefined && parseQuantity(status.currentSize) !== sizeBytes
      );
    })
    .map(({ metadata }) => metadata.name);
}

function report({ nodeName, objects, events, log }: ListingParts, deviceClass: string, volumeID: string): void {
  const begunFor = objects().find(({ metadata }) => metadata.uid === volumeID);
  const subject = `logical volume ${volumeID} of device class ${deviceClass}`;
  const message =
    begunFor === undefined
      ? `bring back the objects of ${subject} (lvs -o +tags), or remove it by hand: no object names it`
      : withDetail(`remove ${subject} by hand: it is half made, and was given up`, begunFor.status?.message);
  log.warn({ deviceClass, volumeID }, message);
  const node = { apiVersion: API_VERSION, kind: NODE_STORAGES.kind, metadata: { name: nodeName } };
  events.record(node, "Warning", "LogicalVolumeOrphaned", message);
}

/**
 * Volumes of LVM that carry our tags and that no object names, or that were left half made. Pure. The agent only reports them, since a user
 * may want such a volume back.
 */
export function orphansAmong(
  listed: readonly ListedVolume[],
  objects: readonly LogicalVolume[],
  layouts: readonly FilesystemLayout[],
): ListedVolume[] {
  const named = new Set([...objects.flatMap(namesOf), ...layouts.flatMap(membersOf)]);
  const shrinking = listed
    .filter(({ tags }) => tags.includes(UNMOUNTED_SHRINK_TAG))
    .map(({ name }) => `${GUARD_TAG}=${name}`);
  const guards = ({ tags }: ListedVolume): boolean => shrinking.some((tag) => tags.includes(tag));
  return listed.filter((one) => taggedVolumeUID(one.tags) !== undefined && !named.has(one.name) && !guards(one));
}

/** A volume left behind by a LogicalVolume that was given up does not count as named: no process finishes it. */
function namesOf({ metadata, spec, status }: LogicalVolume): string[] {
  const isGivenUp = status?.code !== undefined && status.volumeID === undefined;
  return [isGivenUp ? undefined : metadata.uid, spec.volumeID, status?.volumeID].filter((name) => name !== undefined);
}

function membersOf({ spec }: FilesystemLayout): string[] {
  return (spec.members ?? []).flatMap(({ source }) => source.logicalVolume?.volumeID ?? []);
}
