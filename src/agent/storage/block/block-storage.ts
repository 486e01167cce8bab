// The storage port on real filesystems of one member. This file only puts the operations together and keeps them one at a time per
// volume; what each does is in the file of its name.

import { stopLeftoverOperations } from "../btrfs/leftover-btrfs.ts";
import { freshReading } from "../filesystem/fresh-reading.ts";
import { mountsOfDevice } from "../filesystem/mount-table.ts";
import { trim } from "../filesystem/run-fstrim.ts";
import type { Mounted, Storage, Tell, UnmountedShrinks } from "../storage.ts";
import { createVolumeQueue } from "../volume-queue.ts";
import type { BlockHost, OneMemberVolume } from "./block-member.ts";
import { grow, type Linger } from "./grow.ts";
import { shrinkBtrfs } from "./shrink-btrfs.ts";
import { findOwn, stage } from "./stage.ts";
import { removeMember, unstage } from "./unstage.ts";

export interface BlockShrinks<V extends OneMemberVolume> extends UnmountedShrinks<V> {
  /** Ends what was interrupted, and throws where the volume itself says so and nobody has a record of it. */
  beforeMount(volume: V): Promise<void>;
}

export function createBlockStorage<V extends OneMemberVolume>(
  host: BlockHost<V>,
  freeBytes: Storage<V>["freeBytes"],
  unmounted: BlockShrinks<V>,
): Storage<V> {
  const queue = createVolumeQueue();
  const extend = (volume: Mounted<V>, sizeBytes: number, tell: Tell): Promise<number> => {
    const linger: Linger = (command) => void queue.run(volume.handle, () => command);
    return grow(host, volume, sizeBytes, linger, tell);
  };
  return {
    kind: "real",
    stage: (volume, sizeBytes, mountPath) =>
      queue.run(volume.handle, async () => {
        const mounted = await findOwn(host, volume, mountPath);
        if (mounted === undefined) await unmounted.beforeMount(volume);
        return stage(host, volume, sizeBytes, mountPath);
      }),
    unstage: (volume, mountPath) => queue.runPreempting(volume.handle, () => unstage(host, volume, mountPath)),
    find: (volume, mountPath) => findOwn(host, volume, mountPath),
    mountPath: async (volume) => (await host.members.devices(volume)).flatMap(mountsOfDevice)[0]?.mountPath,
    sizeBytes: (volume) => host.members.sizeBytes(volume),
    members: async (volume) => {
      host.members.assertWhole(volume);
      return [];
    },
    immovable: async () => undefined,
    extend: (volume, sizeBytes, _signal, tell = () => undefined) =>
      queue.runPreempting(volume.handle, () => extend(volume, sizeBytes, tell)),
    shrink: (volume, sizeBytes, control) =>
      queue.runPreemptible(volume.handle, control.signal, (signal) =>
        shrinkBtrfs(host, volume, sizeBytes, { ...control, signal }),
      ),
    recover: (volume, signal = new AbortController().signal) =>
      queue.runPreemptible(volume.handle, signal, async (either) => {
        // A user's balance goes on, unless member and filesystem differ.
        await stopLeftoverOperations(host.tools, volume, either);
        // After an interrupted shrink the filesystem may end before its member: growing it back loses nothing, cutting the
        // member could. Whoever recorded the shrink goes on from there.
        return extend(volume, 0, (message) => host.log.warn({ volume: volume.handle }, message));
      }),
    settle: async () => undefined,
    prepareSpares: async () => undefined,
    trim: (volume, signal = new AbortController().signal) =>
      queue.runPreemptible(volume.handle, signal, (either) => trim(host.tools, volume, either)),
    freshReading: (volume) => freshReading(host.tools, volume),
    remove: (volume) => queue.run(volume.handle, () => removeMember(host, volume)),
    freeBytes,
    shrinksUnmounted: (volume) => unmounted.shrinksUnmounted(volume),
    shrinkUnmounted: (volume, sizeBytes, control) =>
      queue.run(volume.handle, () => unmounted.shrinkUnmounted(volume, sizeBytes, control)),
    finishUnmounted: (volume) => queue.run(volume.handle, () => unmounted.finishUnmounted(volume)),
  };
}
