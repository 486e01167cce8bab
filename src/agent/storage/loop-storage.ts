// The storage port on real filesystems: each member is a sparse file behind a loop device. This file only puts the operations
// together and keeps them one at a time per volume; what each does is in the file of its name.
import type { Clock } from "../../process/clock.ts";
import type { CommandPort } from "../../process/command-port.ts";
import type { FilePort } from "../../process/file-port.ts";
import type { Logger } from "../../process/log.ts";
import { stopExclusiveOperation } from "./exclusive-operation.ts";
import { freshReading } from "./fresh-reading.ts";
import { grow, type Linger } from "./grow.ts";
import { hostFreeBytes, type LoopHost, memberExtent, memberPath } from "./loop-host.ts";
import { mountsOf } from "./mount-table.ts";
import { shrinkBtrfs } from "./shrink-btrfs.ts";
import { findOwn, memberDevices, stage } from "./stage.ts";
import type { LoopVolume, MountedLoop, Storage } from "./storage.ts";
import { createTools } from "./tools.ts";
import { trim } from "./trim.ts";
import { removeMember, unstage } from "./unstage.ts";
import { createVolumeQueue } from "./volume-queue.ts";

export interface LoopStorageParts {
  /** Where the member files are made; must exist, and not lie on a volume of ours. */
  readonly memberDirectory: string;
  /** Where their records are kept; on the same disk, so that neither survives the other. */
  readonly recordDirectory: string;
  readonly commands: CommandPort;
  readonly files: FilePort;
  readonly clock: Clock;
  readonly log: Logger;
}

export function createLoopStorage(parts: LoopStorageParts): Storage<LoopVolume> {
  const { memberDirectory, recordDirectory, commands, files, clock, log } = parts;
  const host: LoopHost = {
    memberDirectory,
    recordDirectory,
    tools: createTools(commands),
    files,
    clock,
    log,
    room: { claimedBytes: 0 },
  };
  const queue = createVolumeQueue();
  const extend = (volume: MountedLoop, sizeBytes: number): Promise<number> => {
    const linger: Linger = (command) => void queue.run(volume.handle, () => command);
    return grow(host, volume, sizeBytes, linger);
  };
  return {
    kind: "real",
    stage: (volume, sizeBytes, mountPath) => queue.run(volume.handle, () => stage(host, volume, sizeBytes, mountPath)),
    unstage: (volume, mountPath) => queue.runPreempting(volume.handle, () => unstage(host, volume, mountPath)),
    find: (volume, mountPath) => findOwn(host, volume, mountPath),
    mountPath: async (volume) => (await memberDevices(host, volume)).flatMap(mountsOf)[0]?.mountPath,
    sizeBytes: async (volume) => memberExtent(memberPath(host, volume))?.sizeBytes,
    members: async () => [],
    extend: (volume, sizeBytes) => queue.runPreempting(volume.handle, () => extend(volume, sizeBytes)),
    shrink: (volume, sizeBytes, control) =>
      queue.runPreemptible(volume.handle, control.signal, (signal) =>
        shrinkBtrfs(host, volume, sizeBytes, { ...control, signal }),
      ),
    recover: (volume) =>
      queue.run(volume.handle, async () => {
        await stopExclusiveOperation(host.tools, volume);
        // After an interrupted shrink the filesystem may end before its member: growing it back loses nothing, cutting the
        // file could. Whoever recorded the shrink goes on from there.
        return extend(volume, 0);
      }),
    settle: async () => undefined,
    prepareSpares: async () => undefined,
    trim: (volume) =>
      queue.runPreemptible(volume.handle, new AbortController().signal, (signal) => trim(host.tools, volume, signal)),
    freshReading: (volume) => freshReading(host.tools, volume),
    remove: (volume) => queue.run(volume.handle, () => removeMember(host, volume)),
    freeBytes: async () => hostFreeBytes(host),
  };
}
