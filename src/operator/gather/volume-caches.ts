// What the operator watches, and which volume each change is about.
import { FILESYSTEMS, type Filesystem } from "../../contracts/kinds/filesystem.ts";
import { FILESYSTEM_LAYOUTS, type FilesystemLayout } from "../../contracts/kinds/filesystem-layout.ts";
import { LOGICAL_VOLUMES, type LogicalVolume } from "../../contracts/kinds/logical-volume.ts";
import type { KubeObject } from "../../contracts/kubernetes/object.ts";
import {
  CSI_DRIVERS,
  type CSIDriver,
  NODES,
  type Node,
  PERSISTENT_VOLUME_CLAIMS,
  PERSISTENT_VOLUMES,
  type PersistentVolume,
  type PersistentVolumeClaim,
  VOLUME_ATTACHMENTS,
  type VolumeAttachment,
} from "../../contracts/kubernetes/resources.ts";
import {
  GROWTH_FAILED_ANNOTATION,
  GROWTH_WORKED_ANNOTATION,
  MEMBER_NAMESPACE,
  RECORDS,
} from "../../contracts/names.ts";
import {
  createReflector,
  type Reflector,
  type ReflectorSet,
  reflectorSet,
} from "../../platform/kube/cache/reflector.ts";
import type { KubeClient } from "../../platform/kube/client/client.ts";
import type { Clock } from "../../platform/process/clock.ts";
import type { Logger } from "../../platform/process/log.ts";
import { classFailure } from "../decide/members/member-growth.ts";
import { rulesOfRecords } from "../decide/members/member-rules.ts";
import { lossOf, nodeOfLocal } from "../node-loss/decide-node-loss.ts";
import { labelledHandle } from "../volumes/member-objects.ts";
import { isOurVolume } from "../volumes/volume-record.ts";

interface Reflectors {
  readonly layouts: Reflector<FilesystemLayout>;
  readonly filesystems: Reflector<Filesystem>;
  /** Index "handle": the volume handle of our own; others are under no handle. */
  readonly persistentVolumes: Reflector<PersistentVolume>;
  /** Those in the members' namespace. Index "volume": the handle of the volume whose member it is. */
  readonly memberClaims: Reflector<PersistentVolumeClaim>;
  /** Those of members. Index "volume", as above. */
  readonly attachments: Reflector<VolumeAttachment>;
  readonly csiDrivers: Reflector<CSIDriver>;
  readonly logicalVolumes: Reflector<LogicalVolume>;
  readonly nodes: Reflector<Node>;
}

export interface VolumeCaches extends Reflectors, ReflectorSet {
  /** Handles of all volumes that any object names. */
  handles(): Set<string>;
  /** Calls `changed` with the volume's handle on each change, at once for what is there. */
  onChange(changed: (handle: string) => void): void;
  /** Calls `changed` with the handles of volumes whose only node is lost from now on, or no longer lost. */
  onNodeLossChange(changed: (handle: string) => void): void;
}

const oneOrNone = (value: string | undefined): string[] => (value === undefined ? [] : [value]);

export function createVolumeCaches(client: KubeClient, log: Logger): VolumeCaches {
  const reflectors = createReflectors(client, log);
  const { layouts, persistentVolumes } = reflectors;
  return {
    ...reflectors,
    ...reflectorSet(Object.values(reflectors)),
    handles: () =>
      new Set([
        ...layouts.store.list().map(({ metadata }) => metadata.name),
        ...persistentVolumes.store.list().flatMap(handlesOf),
      ]),
    onChange: (changed) => followVolumes(reflectors, changed),
    onNodeLossChange: (changed) => followNodeLoss(reflectors, changed),
  };
}

function createReflectors(client: KubeClient, log: Logger): Reflectors {
  const layouts = createReflector({
    client,
    resource: FILESYSTEM_LAYOUTS,
    log,
    indexes: {
      "claim-uid": ({ spec }) => oneOrNone(spec.claimRef?.uid),
      "local-node": (layout) => oneOrNone(nodeOfLocal(layout)),
      "member-class": memberClassOf,
      "span-node": ({ spec }) => (spec.backend === "span" ? oneOrNone(spec.nodeName) : []),
    },
  });
  const filesystems = createReflector({ client, resource: FILESYSTEMS, log });
  const persistentVolumes = createReflector({
    client,
    resource: PERSISTENT_VOLUMES,
    log,
    indexes: {
      handle: (volume) => handlesOf(volume),
      "claim-uid": (volume) => (isOurVolume(volume) ? oneOrNone(volume.spec.claimRef?.uid) : []),
    },
  });
  const ofVolume = { volume: (object: KubeObject) => oneOrNone(labelledHandle(object)) };
  const memberClaims = createReflector({
    client,
    resource: PERSISTENT_VOLUME_CLAIMS,
    log,
    select: { namespace: MEMBER_NAMESPACE },
    indexes: ofVolume,
  });
  const attachments = createReflector({
    client,
    resource: VOLUME_ATTACHMENTS,
    log,
    select: { labelSelector: RECORDS.volumeUID },
    indexes: ofVolume,
  });
  const csiDrivers = createReflector({ client, resource: CSI_DRIVERS, log });
  const logicalVolumes = createReflector({ client, resource: LOGICAL_VOLUMES, log });
  const nodes = createReflector({ client, resource: NODES, log });
  return { layouts, filesystems, persistentVolumes, memberClaims, attachments, csiDrivers, logicalVolumes, nodes };
}

function followVolumes(reflectors: Reflectors, changed: (handle: string) => void): void {
  const { layouts, filesystems, persistentVolumes, memberClaims, attachments, logicalVolumes } = reflectors;
  const handlesOfFilesystem = ({ spec }: Filesystem): string[] => {
    const uid = spec.claimRef?.uid ?? "";
    const named = layouts.store.byIndex("claim-uid", uid).map(({ metadata }) => metadata.name);
    return [...named, ...persistentVolumes.store.byIndex("claim-uid", uid).flatMap(handlesOf)];
  };
  subscribeAll(layouts, ({ metadata }) => [metadata.name], changed);
  subscribeAll(filesystems, handlesOfFilesystem, changed);
  subscribeAll(persistentVolumes, (volume) => [...handlesOf(volume), ...handlesOfMember(volume)], changed);
  subscribeAll(memberClaims, (claim) => oneOrNone(labelledHandle(claim)), changed);
  subscribeAll(attachments, (attachment) => oneOrNone(labelledHandle(attachment)), changed);
  subscribeAll(logicalVolumes, ({ metadata }) => [metadata.name], changed);
}

function followNodeLoss({ layouts, nodes }: Reflectors, changed: (handle: string) => void): void {
  const tell = ({ metadata }: Node): void => {
    for (const layout of layouts.store.byIndex("local-node", metadata.name)) changed(layout.metadata.name);
  };
  nodes.subscribe({
    added: tell,
    // A node reports every few seconds.
    updated: (node, before) => {
      if (lossOf(node) !== lossOf(before)) tell(node);
    },
    deleted: tell,
  });
}

function handlesOf(volume: PersistentVolume): string[] {
  return isOurVolume(volume) ? oneOrNone(volume.spec.csi?.volumeHandle) : [];
}

const MEMBER_CLAIM = /^(fs-[0-9a-f-]{36})-m\d+$/;

/** A member's PersistentVolume has its labels from us, later than the events that matter first. */
function handlesOfMember({ spec }: PersistentVolume): string[] {
  const { namespace, name = "" } = spec.claimRef ?? {};
  return namespace === MEMBER_NAMESPACE ? oneOrNone(MEMBER_CLAIM.exec(name)?.[1]) : [];
}

function subscribeAll<T extends KubeObject>(
  reflector: Reflector<T>,
  handlesOfObject: (object: T) => readonly string[],
  changed: (handle: string) => void,
): void {
  const tell = (object: T): void => {
    for (const handle of new Set(handlesOfObject(object))) changed(handle);
  };
  reflector.subscribe({ added: tell, updated: tell, deleted: tell });
}

const REMEMBERED = [GROWTH_FAILED_ANNOTATION, GROWTH_WORKED_ANNOTATION];

/** Values of the layouts' index "member-class". */
export function memberClassOf({ spec, metadata }: FilesystemLayout): string[] {
  const rules = spec.backend === "span" ? rulesOfRecords(metadata.annotations) : undefined;
  return rules === undefined ? [] : [rules.className];
}

/**
 * Sees when a class ceases to grow members, and when it grows them again: all volumes of the class say so, and only the one that remembers it
 * has changed. A memory that merely becomes newer is passed over, so that many volumes that fail one after another cost one look at each.
 * Calls `changed` with the handle of each volume of such a class. It does not see when the time of a failure is over:
 * the reconciler checks each volume that reports a failure again by then.
 */
export function onClassGrowthChange(
  layouts: Pick<Reflector<FilesystemLayout>, "store" | "subscribe">,
  clock: Pick<Clock, "nowMs">,
  changed: (handle: string) => void,
): void {
  /** Classes that failed at the last check, and until when that counts. */
  const failingUntilMs = new Map<string, number>();
  const look = (className: string): void => {
    const ofClass = layouts.store.byIndex("member-class", className);
    const nowMs = clock.nowMs();
    const failure = classFailure(ofClass, className, nowMs);
    const hasFailed = (failingUntilMs.get(className) ?? nowMs) > nowMs;
    if (failure === undefined) failingUntilMs.delete(className);
    else failingUntilMs.set(className, failure.untilMs);
    if (hasFailed === (failure !== undefined)) return;
    for (const { metadata } of ofClass) changed(metadata.name);
  };
  const lookAt = (layout: FilesystemLayout): void => {
    if (REMEMBERED.some((annotation) => valueOf(layout, annotation) !== undefined))
      for (const className of memberClassOf(layout)) look(className);
  };
  layouts.subscribe({
    added: lookAt,
    updated: (layout, before) => {
      if (REMEMBERED.some((annotation) => valueOf(layout, annotation) !== valueOf(before, annotation)))
        for (const className of memberClassOf(layout)) look(className);
    },
    deleted: lookAt,
  });
}

function valueOf({ metadata }: FilesystemLayout, annotation: string): string | undefined {
  return metadata.annotations?.[annotation];
}
