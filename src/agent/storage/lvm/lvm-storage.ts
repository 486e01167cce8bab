// The storage port on logical volumes, those with a filesystem and those without. Only wiring.

import type { Clock } from "../../../process/clock.ts";
import type { CommandPort } from "../../../process/command-port.ts";
import type { FilePort } from "../../../process/file-port.ts";
import type { Logger } from "../../../process/log.ts";
import type { DeviceClasses } from "../../lvmd-client/follow-classes.ts";
import type { LvmdCalls } from "../../lvmd-client/lvmd-calls.ts";
import { type BlockShrinks, createBlockStorage } from "../block/block-storage.ts";
import { createMovingRoom } from "../moving-room.ts";
import type { LvmVolume, RawVolume, Storage } from "../storage.ts";
import { createTools } from "../tools.ts";
import type { LvmHost } from "./lvm-host.ts";
import { createLvmMembers } from "./lvm-member.ts";
import { createRawStorage } from "./raw-storage.ts";
import { finishRecordedShrink, finishUnmountedShrink } from "./unmounted-shrink/finish-unmounted-shrink.ts";
import { shrinkUnmounted } from "./unmounted-shrink/unmounted-shrink.ts";

export interface LvmStorageParts {
  readonly lvmd: LvmdCalls;
  readonly classes: DeviceClasses;
  /** Of lvmd's socket. */
  readonly socketDirectory: string;
  /** Where the records of formattings and reductions are kept. */
  readonly recordDirectory: string;
  readonly commands: CommandPort;
  readonly files: FilePort;
  readonly clock: Clock;
  readonly log: Logger;
}

export interface LvmStorage {
  readonly filesystems: Storage<LvmVolume>;
  readonly raw: Storage<RawVolume>;
}

function unmountedShrinksOf(host: LvmHost): BlockShrinks<LvmVolume> {
  const { classes } = host;
  return {
    shrinksUnmounted: ({ fsType, deviceClass }) => {
      if (fsType !== "ext4") return false;
      return classes.list() === undefined ? undefined : classes.get(deviceClass)?.thinPool !== undefined;
    },
    shrinkUnmounted: (volume, sizeBytes, control) => shrinkUnmounted(host, volume, sizeBytes, control),
    finishUnmounted: (volume) => finishRecordedShrink(host, volume),
    beforeMount: (volume) => finishUnmountedShrink(host, volume),
  };
}

export function createLvmStorage(parts: LvmStorageParts): LvmStorage {
  const { lvmd, classes, socketDirectory, recordDirectory, commands, files, clock, log } = parts;
  const tools = createTools(commands);
  const host: LvmHost = { lvmd, classes, socketDirectory, recordDirectory, tools, files, clock, guards: new Set() };
  const members = createLvmMembers(host);
  // What was told last, while lvmd is away: of a class that has lost its group it has told that nothing is free.
  const freeBytes = async (deviceClass = ""): Promise<number | undefined> => classes.get(deviceClass)?.freeBytes;
  return {
    filesystems: createBlockStorage<LvmVolume>(
      { members, recordDirectory, tools, files, clock, log, moving: createMovingRoom() },
      freeBytes,
      unmountedShrinksOf(host),
    ),
    raw: createRawStorage({ members, recordDirectory, tools, files }, freeBytes),
  };
}
