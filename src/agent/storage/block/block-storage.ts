// The storage port on real filesystems of one member. This file only puts the operations together and keeps them one at a time per
// volume; what each does is in the file of its name.

import { stopLeftoverOperations } from "../btrfs/exclusive-operation.ts";
import { mountsOfDevice } from "../filesystem/devices-and-mounts.ts";
import { freshReading, trim } from "../filesystem/fresh-reading.ts";
import type { FreshReadings, Mounted, Mounting, OneMember, Resizing, Tell, Trimming } from "../storage.ts";
import type { VolumeQueue } from "../volume-queue.ts";
import type { BlockHost, OneMemberVolume } from "./block-member.ts";
import { grow, type Linger } from "./resize-member.ts";
import { shrinkBtrfs } from "./shrink-btrfs.ts";
import { findOwn, removeMember, stage, unstage } from "./stage.ts";

export interface BlockStorage<V extends OneMemberVolume>
  extends Mounting<V>,
    Resizing<V>,
    Trimming<V>,
    FreshReadings<V>,
    OneMember<V> {}

/** `beforeMount` ends what was interrupted while the volume was not mounted, or throws where it must not be mounted. */
export function createBlockStorage<V extends OneMemberVolume>(
  host: BlockHost<V>,
  queue: VolumeQueue,
  beforeMount: (volume: V) => Promise<void>,
): BlockStorage<V> {
  const extend = (volume: Mounted<V>, sizeBytes: number, tell: Tell): Promise<number> => {
    const linger: Linger = (command) => void queue.run(volume.handle, () => command);
    return grow(host, volume, sizeBytes, linger, tell);
  };
  return {
    stage: (volume, sizeBytes, mountPath) =>
      queue.run(volume.handle, async () => {
        const mounted = await findOwn(host, volume, mountPath);
        if (mounted === undefined) await beforeMount(volume);
        return stage(host, volume, sizeBytes, mountPath);
      }),
    unstage: (volume, mountPath) => queue.runPreempting(volume.handle, () => unstage(host, volume, mountPath)),
    find: (volume, mountPath) => findOwn(host, volume, mountPath),
    mountPath: async (volume) => (await host.members.devices(volume)).flatMap(mountsOfDevice)[0]?.mountPath,
    sizeBytes: (volume) => host.members.sizeBytes(volume),
    assertWhole: (volume) => host.members.assertWhole(volume),
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
        // After an interrupted shrink the filesystem may end before its member: growing it back loses nothing, cutting the member could.
        // The caller, which has the shrink on record, goes on from there.
        return extend(volume, 0, (message) => host.log.warn({ volume: volume.handle }, message));
      }),
    trim: (volume, signal = new AbortController().signal) =>
      queue.runPreemptible(volume.handle, signal, (either) => trim(host.tools, volume, either)),
    freshReading: (volume) => freshReading(host, volume),
    remove: (volume) => queue.run(volume.handle, () => removeMember(host, volume)),
  };
}
