// What the operator watches, and which volume each change is about.
import { FILESYSTEMS, type Filesystem } from "../../api/filesystem.ts";
import { FILESYSTEM_LAYOUTS, type FilesystemLayout } from "../../api/filesystem-layout.ts";
import { LOGICAL_VOLUMES, type LogicalVolume } from "../../api/logical-volume.ts";
import { MEMBER_NAMESPACE, RECORDS } from "../../api/names.ts";
import { createReflector, type Reflector } from "../../kube/cache/reflector.ts";
import { type ReflectorSet, reflectorSet } from "../../kube/cache/reflector-set.ts";
import type { KubeClient } from "../../kube/client/client.ts";
import type { KubeObject } from "../../kube/object.ts";
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
} from "../../kube/resources.ts";
import type { Logger } from "../../process/log.ts";
import { labelledHandle } from "../member/member-names.ts";
import { lossOf, nodeOfLocal } from "../node-loss/lost-node.ts";
import { memberClassOf } from "./growth-watch.ts";
import { isOurVolume } from "./volume-record.ts";

export interface VolumeCaches extends ReflectorSet {
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
  /** Handles of all volumes that any object tells of. */
  handles(): Set<string>;
  /** Calls `changed` with the volume's handle on each change, at once for what is there. */
  onChange(changed: (handle: string) => void): void;
  /** Calls `changed` with the handles of volumes whose only node is lost from now on, or is no more. */
  onNodeLossChange(changed: (handle: string) => void): void;
}

const oneOrNone = (value: string | undefined): string[] => (value === undefined ? [] : [value]);

export function createVolumeCaches(client: KubeClient, log: Logger): VolumeCaches {
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

  const handlesOfFilesystem = ({ spec }: Filesystem): string[] => {
    const uid = spec.claimRef?.uid ?? "";
    const named = layouts.store.byIndex("claim-uid", uid).map(({ metadata }) => metadata.name);
    return [...named, ...persistentVolumes.store.byIndex("claim-uid", uid).flatMap(handlesOf)];
  };

  return {
    layouts,
    filesystems,
    persistentVolumes,
    memberClaims,
    attachments,
    csiDrivers,
    logicalVolumes,
    nodes,
    ...reflectorSet([
      layouts,
      filesystems,
      persistentVolumes,
      memberClaims,
      attachments,
      csiDrivers,
      logicalVolumes,
      nodes,
    ]),
    handles: () =>
      new Set([
        ...layouts.store.list().map(({ metadata }) => metadata.name),
        ...persistentVolumes.store.list().flatMap(handlesOf),
      ]),
    onChange: (changed) => {
      subscribeAll(layouts, ({ metadata }) => [metadata.name], changed);
      subscribeAll(filesystems, handlesOfFilesystem, changed);
      subscribeAll(persistentVolumes, (volume) => [...handlesOf(volume), ...handlesOfMember(volume)], changed);
      subscribeAll(memberClaims, (claim) => oneOrNone(labelledHandle(claim)), changed);
      subscribeAll(attachments, (attachment) => oneOrNone(labelledHandle(attachment)), changed);
      subscribeAll(logicalVolumes, ({ metadata }) => [metadata.name], changed);
    },
    onNodeLossChange: (changed) => {
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
    },
  };
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
