// What somebody else does with a mounted btrfs that stands against a change of its size: a balance, a replace, an active swapfile. It
// names them for people, and stops none of them.

import type { MountedFilesystem, ShrinkResult } from "../storage.ts";
import { expectSuccess, type Tools } from "../tools.ts";
import { exclusiveOperation } from "./exclusive-operation.ts";

/** A shrink of ours repacks data chunks by their use, and nothing else (shrink-decision.ts). */
const OUR_FILTERS = /^\s*DATA \([^)]*\): balancing, usage=(0|25|50)$/;
const FILTERS = /^\s*(DATA|METADATA|SYSTEM) \(/;

/**
 * As sysfs names it, such as "balance paused": the exclusive operation that is not ours; undefined: none, or what a dead agent has
 * left. A resize, or a removal from a span, counts as ours: nobody else resizes what Tidemark does.
 */
export async function othersOperation(tools: Tools, volume: MountedFilesystem): Promise<string | undefined> {
  if (volume.fsType !== "btrfs") return undefined;
  const running = exclusiveOperation(volume.fsid);
  switch (running) {
    case "none":
    case "resize":
      return undefined;
    case "device add":
    case "device remove":
      return volume.backend === "span" ? undefined : running;
    case "balance":
    case "balance paused":
      return (await isOurBalance(tools, volume)) ? undefined : running;
    default:
      return running;
  }
}

async function isOurBalance(tools: Tools, { handle, mountPath }: MountedFilesystem): Promise<boolean> {
  const told = await tools.query("btrfs", ["balance", "status", "--verbose", mountPath]);
  // It ends with 1 where a balance is there, and with 0 where it has ended meanwhile.
  if (told.exitCode !== 1) expectSuccess(told, `asking for the balance of ${handle}`);
  return hasOurFilters(told.stdout);
}

/** Whether `btrfs balance status --verbose` tells of a balance that a shrink of ours may have begun, or of none. */
export function hasOurFilters(status: string): boolean {
  const filters = status.split("\n").filter((line) => FILTERS.test(line));
  return filters.every((line) => OUR_FILTERS.test(line));
}

/** Whether a shrink of ours may have begun a balance with this filter. */
export function isOurBalanceFilter(argument: string): boolean {
  return /^-dusage=(0|25|50)$/.test(argument);
}

/** Whether a command has found another exclusive operation in its place. */
export function metExclusive(stderr: string): boolean {
  return /exclusive operation .*in progress|operation in progress/i.test(stderr);
}

/** Whether the kernel has refused to move a chunk for a swapfile in it (fs/btrfs/volumes.c: ETXTBSY). */
export function metSwapfile(stderr: string): boolean {
  return /text file busy/i.test(stderr);
}

/** It is tried again, at longer and longer intervals. */
export function busy({ mountPath }: MountedFilesystem, sizeBytes: number, others: string): ShrinkResult {
  return {
    outcome: "Busy",
    sizeBytes,
    message: `somebody else is at work on ${mountPath} (${others}), and is not disturbed for a shrink: it waits for the end`,
  };
}
