// The storage port on members of other CSI drivers: each is a raw block volume of a claim. This file only puts the operations
// together and keeps them one at a time per volume; what each does is in the file of its name.

import type { Clock } from "../../../platform/process/clock.ts";
import type { CommandPort } from "../../../platform/process/effects/command-port.ts";
import type { FilePort } from "../../../platform/process/effects/file-port.ts";
import type { Logger } from "../../../platform/process/log.ts";
import { stopLeftoverOperations } from "../btrfs/exclusive-operation.ts";
import { swapfileProblem, whyImmovable } from "../btrfs/immovable-data.ts";
import { mountedDeviceNames, mountsOfBtrfs } from "../filesystem/devices-and-mounts.ts";
import { freshReading, trim } from "../filesystem/fresh-reading.ts";
import type { MountReader } from "../filesystem/mount-reader.ts";
import type { FreshReadings, Members, Mounting, Resizing, SpanVolume, Trimming } from "../storage.ts";
import { createTools } from "../tools.ts";
import { createVolumeQueue } from "../volume-queue.ts";
import { prepareSpares } from "./blank-devices.ts";
import { readDeviceUsage } from "./device-identity.ts";
import { deviceBytes, extendSpan } from "./extend-span.ts";
import { findMembers } from "./find-members.ts";
import { releaseMembers, restoreDevices } from "./release-members.ts";
import { removeMembers } from "./shrink-span.ts";
import { assertOnlyMembers, findOwnSpan, noteDisks } from "./span-devices.ts";
import type { MemberDevices, SpanHost } from "./span-host.ts";
import { stageSpan } from "./stage-span.ts";
import { forgetSpan, giveBackSpan, unstageSpan } from "./unstage-span.ts";

export interface SpanStorageParts {
  readonly recordDirectory: string;
  readonly devices: MemberDevices;
  readonly mounts: MountReader;
  readonly commands: CommandPort;
  readonly files: FilePort;
  readonly clock: Clock;
  readonly log: Logger;
}

export interface SpanStorage
  extends Mounting<SpanVolume>,
    Resizing<SpanVolume>,
    Trimming<SpanVolume>,
    FreshReadings<SpanVolume>,
    Members<SpanVolume> {}

export function createSpanStorage({ commands, ...parts }: SpanStorageParts): SpanStorage {
  const host: SpanHost = {
    ...parts,
    tools: createTools(commands),
    deviceUUIDs: new Map(),
    spares: new Map(),
    refused: new Map(),
  };
  const queue = createVolumeQueue();
  return {
    stage: (volume, _sizeBytes, mountPath) => queue.run(volume.handle, () => stageSpan(host, volume, mountPath)),
    unstage: (volume, mountPath) => queue.runPreempting(volume.handle, () => unstageSpan(host, volume, mountPath)),
    giveBack: (volume) => queue.runPreempting(volume.handle, () => giveBackSpan(host, volume)),
    find: async (volume, mountPath) => findOwnSpan(host, volume, mountPath),
    mountPath: async ({ fsid }) => mountsOfBtrfs(mountedDeviceNames(fsid))[0]?.mountPath,
    sizeBytes: async (volume) => {
      const names = mountedDeviceNames(volume.fsid);
      const mount = mountsOfBtrfs(names)[0];
      if (mount === undefined) return undefined;
      // By a separate program: whether the filesystem answers is not known yet.
      const devices = await readDeviceUsage(host.tools, {
        ...volume,
        device: mount.source,
        mountPath: mount.mountPath,
      });
      // Without one of them it is not the size.
      return devices.length < names.length ? undefined : devices.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0);
    },
    members: (volume) => findMembers(host, volume),
    // A swapfile holds one member alone; which, only its removal finds out.
    immovable: async (volume) => (await whyImmovable(host.tools, volume)) ?? swapfileProblem(volume.fsid),
    extend: (volume, sizeBytes, signal, tell = () => undefined) =>
      queue.runPreempting(volume.handle, () => extendSpan(host, volume, sizeBytes, signal, tell)),
    shrink: (volume, _sizeBytes, control) =>
      queue.runPreemptible(volume.handle, control.signal, (signal) =>
        removeMembers(host, volume, { ...control, signal }),
      ),
    recover: (volume, signal = new AbortController().signal) =>
      queue.runPreemptible(volume.handle, signal, async (either) => {
        // Members that are out already are released by releaseMembers: a driver that does not take one back holds nothing up. A user's balance goes
        // on; what a removal has left to be undone waits for its end.
        await noteDisks(host, volume);
        await stopLeftoverOperations(host.tools, volume, either);
        assertOnlyMembers(host, volume);
        await restoreDevices(host, volume, undefined);
        return deviceBytes(host, volume);
      }),
    releaseMembers: (volume) =>
      queue.runPreemptible(volume.handle, new AbortController().signal, (either) =>
        releaseMembers(host, volume, either),
      ),
    prepareSpares: (volume, signal = new AbortController().signal) =>
      queue.runPreemptible(volume.handle, signal, (either) => prepareSpares(host, volume, either)),
    trim: (volume, signal = new AbortController().signal) =>
      queue.runPreemptible(volume.handle, signal, (either) => trim(host.tools, volume, either)),
    freshReading: (volume) => freshReading(host, volume),
    remove: (volume) => queue.run(volume.handle, () => forgetSpan(host, volume)),
  };
}
