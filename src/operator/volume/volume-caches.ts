// What the operator watches, and which volume each change is about.
import { FILESYSTEMS, type Filesystem } from "../../api/filesystem.ts";
import { FILESYSTEM_LAYOUTS, type FilesystemLayout } from "../../api/filesystem-layout.ts";
import type { KubeClient } from "../../kube/client.ts";
import { createReflector, type Reflector } from "../../kube/reflector.ts";
import { PERSISTENT_VOLUMES, type PersistentVolume } from "../../kube/resources.ts";
import type { Logger } from "../../process/log.ts";
import { isOurVolume } from "./volume-record.ts";

export interface VolumeCaches {
  readonly layouts: Reflector<FilesystemLayout>;
  readonly filesystems: Reflector<Filesystem>;
  /** Index "handle": the volume handle of our own; others are under no handle. */
  readonly persistentVolumes: Reflector<PersistentVolume>;
  readonly synced: Promise<void>;
  /** Handles of all volumes that any object tells of. */
  handles(): Set<string>;
  /** Calls `changed` with the volume's handle on each change, at once for what is there. */
  onChange(changed: (handle: string) => void): void;
  start(): void;
  stop(): Promise<void>;
}

const oneOrNone = (value: string | undefined): string[] => (value === undefined ? [] : [value]);

export function createVolumeCaches(client: KubeClient, log: Logger): VolumeCaches {
  const layouts = createReflector({
    client,
    resource: FILESYSTEM_LAYOUTS,
    log,
    indexes: { "claim-uid": ({ spec }) => oneOrNone(spec.claimRef?.uid) },
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
  const all = [layouts, filesystems, persistentVolumes];

  const handlesOfFilesystem = ({ spec }: Filesystem): string[] => {
    const uid = spec.claimRef?.uid ?? "";
    const named = layouts.store.byIndex("claim-uid", uid).map(({ metadata }) => metadata.name);
    return [...named, ...persistentVolumes.store.byIndex("claim-uid", uid).flatMap(handlesOf)];
  };

  return {
    layouts,
    filesystems,
    persistentVolumes,
    synced: Promise.all(all.map(({ synced }) => synced)).then(() => undefined),
    handles: () =>
      new Set([
        ...layouts.store.list().map(({ metadata }) => metadata.name),
        ...persistentVolumes.store.list().flatMap(handlesOf),
      ]),
    onChange: (changed) => {
      subscribeAll(layouts, ({ metadata }) => [metadata.name], changed);
      subscribeAll(filesystems, handlesOfFilesystem, changed);
      subscribeAll(persistentVolumes, handlesOf, changed);
    },
    start: () => {
      for (const reflector of all) reflector.start();
    },
    stop: async () => {
      await Promise.all(all.map((reflector) => reflector.stop()));
    },
  };
}

function handlesOf(volume: PersistentVolume): string[] {
  return isOurVolume(volume) ? oneOrNone(volume.spec.csi?.volumeHandle) : [];
}

function subscribeAll<T extends FilesystemLayout | Filesystem | PersistentVolume>(
  reflector: Reflector<T>,
  handlesOfObject: (object: T) => readonly string[],
  changed: (handle: string) => void,
): void {
  const tell = (object: T): void => {
    for (const handle of new Set(handlesOfObject(object))) changed(handle);
  };
  reflector.subscribe({ added: tell, updated: tell, deleted: tell });
}
