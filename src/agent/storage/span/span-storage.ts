// The storage port on members of other CSI drivers: each is a raw block volume of a claim. This file only puts the operations
// together and keeps them one at a time per volume; what each does is in the file of its name.

import type { Clock } from "../../../process/clock.ts";
import type { CommandPort } from "../../../process/command-port.ts";
import type { FilePort } from "../../../process/file-port.ts";
import type { Logger } from "../../../process/log.ts";
import type { MemberDevices } from "../../member-drivers/member-devices.ts";
import { stopLeftoverOperations } from "../btrfs/leftover-btrfs.ts";
import { swapfileProblem } from "../btrfs/swapfiles.ts";
import { freshReading } from "../filesystem/fresh-reading.ts";
import { mountsOfBtrfs } from "../filesystem/mount-table.ts";
import { trim } from "../filesystem/run-fstrim.ts";
import { NO_UNMOUNTED_SHRINKS } from "../no-unmounted-shrinks.ts";
import type { SpanVolume, Storage } from "../storage.ts";
import { createTools } from "../tools.ts";
import { createVolumeQueue } from "../volume-queue.ts";
import { readDeviceUsage } from "./device-usage.ts";
import { deviceBytes, extendSpan } from "./extend-span.ts";
import { findMembers } from "./find-members.ts";
import { findOwnSpan } from "./find-span.ts";
import { prepareSpares } from "./prepare-spares.ts";
import { removeMembers } from "./remove-members.ts";
import { restoreDevices } from "./restore-devices.ts";
import { settleMembers } from "./settle-members.ts";
import { assertOnlyMembers, mountedDeviceNames } from "./span-devices.ts";
import type { SpanHost } from "./span-host.ts";
import { stageSpan } from "./stage-span.ts";
import { forgetSpan, unstageSpan } from "./unstage-span.ts";
import { whyImmovable } from "./why-immovable.ts";

export interface SpanStorageParts {
  readonly recordDirectory: string;
  readonly devices: MemberDevices;
  readonly commands: CommandPort;
  readonly files: FilePort;
  readonly clock: Clock;
  readonly log: Logger;
}

export function createSpanStorage({ commands, ...parts }: SpanStorageParts): Storage<SpanVolume> {
  const host: SpanHost = {
    ...parts,
    tools: createTools(commands),
    deviceUUIDs: new Map(),
    spares: new Map(),
    refused: new Map(),
  };
  const queue = createVolumeQueue();
  return {
    ...NO_UNMOUNTED_SHRINKS,
    kind: "real",
    stage: (volume, _sizeBytes, mountPath) => queue.run(volume.handle, () => stageSpan(host, volume, mountPath)),
    unstage: (volume, mountPath) => queue.runPreempting(volume.handle, () => unstageSpan(host, volume, mountPath)),
    find: async (volume, mountPath) => findOwnSpan(host, volume, mountPath),
    mountPath: async ({ fsid }) => mountsOfBtrfs(mountedDeviceNames(fsid))[0]?.mountPath,
    sizeBytes: async (volume) => {
      const names = mountedDeviceNames(volume.fsid);
      const mount = mountsOfBtrfs(names)[0];
      if (mount === undefined) return undefined;
      // By a program of its own: this is asked before anybody knows whether the filesystem answers.
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
        // Members that are out already are let go of by settle: a driver that does not take one back holds nothing up.
        // A user's balance goes on; what a removal has left to be undone waits for its end.
        await stopLeftoverOperations(host.tools, volume, either);
        assertOnlyMembers(host, volume);
        await restoreDevices(host, volume, undefined);
        return deviceBytes(volume);
      }),
    settle: (volume) => queue.run(volume.handle, () => settleMembers(host, volume)),
    prepareSpares: (volume, signal = new AbortController().signal) =>
      queue.runPreemptible(volume.handle, signal, (either) => prepareSpares(host, volume, either)),
    trim: (volume, signal = new AbortController().signal) =>
      queue.runPreemptible(volume.handle, signal, (either) => trim(host.tools, volume, either)),
    freshReading: (volume) => freshReading(host.tools, volume),
    remove: (volume) => queue.run(volume.handle, () => forgetSpan(host, volume)),
    // What the members' drivers have left nobody on this node can tell.
    freeBytes: async () => 0,
  };
}
