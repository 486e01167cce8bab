// The storage port on loop members: sparse files, each behind a loop device. Only wiring.
import { statSync } from "node:fs";
import type { Clock } from "../../../process/clock.ts";
import type { CommandPort } from "../../../process/command-port.ts";
import type { FilePort } from "../../../process/file-port.ts";
import type { Logger } from "../../../process/log.ts";
import { createBlockStorage } from "../block/block-storage.ts";
import { createMovingRoom } from "../moving-room.ts";
import { NO_UNMOUNTED_SHRINKS } from "../no-unmounted-shrinks.ts";
import type { LoopVolume, Storage } from "../storage.ts";
import { createTools } from "../tools.ts";
import { hostFreeBytes, type LoopHost } from "./loop-host.ts";
import { createLoopMembers } from "./loop-member.ts";

export interface LoopStorageParts {
  /** Where the member files are made; must exist, and not lie on a volume of ours. */
  readonly memberDirectory: string;
  /** Where their records are kept; on the same disk, so that neither survives the other. */
  readonly recordDirectory: string;
  /** Left free on their disk, in bytes, of a disk of so many. Absent: nothing is. */
  readonly reserveBytes?: (diskBytes: number) => number;
  readonly commands: CommandPort;
  readonly files: FilePort;
  readonly clock: Clock;
  readonly log: Logger;
}

export function createLoopStorage(parts: LoopStorageParts): Storage<LoopVolume> {
  const { memberDirectory, recordDirectory, reserveBytes = () => 0, commands, files, clock, log } = parts;
  const tools = createTools(commands);
  const memberDisk = statSync(memberDirectory).dev;
  const room = { claimedBytes: 0 };
  const host: LoopHost = { memberDirectory, memberDisk, recordDirectory, reserveBytes, tools, files, room };
  const members = createLoopMembers(host);
  return createBlockStorage<LoopVolume>(
    { members, recordDirectory, tools, files, clock, log, moving: createMovingRoom() },
    async () => hostFreeBytes(host),
    { ...NO_UNMOUNTED_SHRINKS, beforeMount: async () => undefined },
  );
}
