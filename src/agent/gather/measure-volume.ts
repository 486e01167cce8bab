// How large a volume is at this moment, and which members it has: asked of storage, within limits, and stored in the volume's state.
// Nothing here touches a mount on the main thread: one that does not answer would take the agent along.
import type { FoundMember, Members, Resizing } from "../storage/storage.ts";
import { StorageError, unlessHung } from "../storage/storage-error.ts";
import type { NodeVolume } from "../volumes/node-volume.ts";
import { mountedVolumeOf, type NodeVolumeState, type PresentMount, volumeOf } from "../volumes/volume-state.ts";

type Measurable = Pick<Members, "members"> & Pick<Resizing, "sizeBytes">;

const MEMBERS_LIMIT_MS = 10_000;

export async function measureVolume(storage: Measurable, volume: NodeVolume): Promise<void> {
  await findMembersWhileIdle(storage, volume).catch(async (error: unknown) => {
    // What is left of it is reported all the same.
    if (volume.state.record.backend !== "span") await measureSize(storage, volume);
    throw error;
  });
  await measureSize(storage, volume);
}

async function measureSize(storage: Measurable, volume: NodeVolume): Promise<void> {
  volume.dispatch({ type: "SizeMeasured", sizeBytes: await measuredBytes(storage, volume.state) });
}

/** The members of a mounted volume as it is recorded now; empty where there is but one. */
export function findMembers(
  storage: Pick<Members, "members">,
  mounted: PresentMount,
  { handle, record }: NodeVolumeState,
): Promise<readonly FoundMember[]> {
  const finding = storage.members(mountedVolumeOf(mounted, record));
  return unlessHung(finding, MEMBERS_LIMIT_MS, `finding the members of volume ${handle}`);
}

/** Nothing else runs on a volume while its devices are listed: those of a running operation come and go. */
async function findMembersWhileIdle(storage: Measurable, volume: NodeVolume): Promise<void> {
  const { mounted, closing, running } = volume.state;
  if (mounted === undefined || closing || mounted.hung || running !== undefined) return;
  const members = await findMembers(storage, mounted, volume.state).catch((error: unknown) => {
    if (error instanceof StorageError && error.code === "MembersMissing")
      volume.dispatch({ type: "MemberVanished", message: error.message });
    throw error;
  });
  if (volume.state.running === undefined) volume.dispatch({ type: "MembersFound", volume: mounted.volume, members });
}

/**
 * The members' sizes come with their names, so their sum needs no further call. A hung span cannot be asked, so its last known size stands.
 */
async function measuredBytes(storage: Measurable, state: NodeVolumeState): Promise<number | undefined> {
  const { mounted, record } = state;
  const sumBytes = sumOfPresent(mounted?.members ?? []);
  if (sumBytes !== undefined) return sumBytes;
  if (mounted?.hung === true && record.backend === "span") return state.sizeBytes;
  return storage.sizeBytes(volumeOf(record));
}

/** Undefined while the size of one is not known: a part of the sum would read as a smaller filesystem. */
function sumOfPresent(members: readonly FoundMember[]): number | undefined {
  let sumBytes = 0;
  for (const { state, sizeBytes } of members) {
    if (state !== "Present") continue;
    if (sizeBytes === undefined) return undefined;
    sumBytes += sizeBytes;
  }
  return sumBytes || undefined;
}
