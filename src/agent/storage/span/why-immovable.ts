// Why data of a mounted span is not moved from one member to another: what its user has made of it may force it read-only meanwhile.
import { foreignProfile } from "../btrfs/btrfs-profiles.ts";
import { countSubvolumes } from "../btrfs/btrfs-sharing.ts";
import { sharingProblem } from "../shrink-decision.ts";
import type { MountedSpan } from "../storage.ts";
import type { Tools } from "../tools.ts";

/** In words; undefined: it is moved. A member without any data leaves all the same. */
export async function whyImmovable(tools: Tools, volume: MountedSpan): Promise<string | undefined> {
  return foreignProfile(volume.fsid) ?? sharingProblem(await countSubvolumes(tools, volume));
}
