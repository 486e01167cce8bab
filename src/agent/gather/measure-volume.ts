// How large a volume is at this moment, and which members it has: asked of storage, within limits, and kept in the volume's state.
// Nothing here touches a mount on the main thread: one that does not answer would take the agent along.
import { type FoundMember, type MountedVolume, type Storage, StorageError } from "../storage/storage.ts";
import { mountedVolumeOf, type VolumeState, volumeOf } from "../volumes/volume-state.ts";
import { withTimeLimit } from "../volumes/wait-with-limit.ts";

type Measurable = Pick<Storage, "members" | "sizeBytes">;

const MEMBERS_LIMIT_MS = 10_000;

/** While an operation runs it says itself how far it has come. */
export async function measureVolume(storage: Measurable, state: VolumeState): Promise<void> {
  await findMembersWhileIdle(storage, state).catch(async (error: unknown) => {
    // What is left of it is reported all the same.
    if (state.record.backend !== "span") await measureIdle(storage, state);
    throw error;
  });
  const sizeBytes = await measureIdle(storage, state);
  if (sizeBytes !== undefined && !state.record.memberMade) state.record = { ...state.record, memberMade: true };
}

async function measureIdle(storage: Measurable, state: VolumeState): Promise<number | undefined> {
  const sizeBytes = await measuredBytes(storage, state);
  if (state.running === undefined) state.sizeBytes = sizeBytes;
  return sizeBytes;
}

/** The members of a mounted volume as it is recorded now; empty where there is but one. */
export function findMembers(
  storage: Pick<Storage, "members">,
  mounted: MountedVolume,
  { handle, record }: VolumeState,
): Promise<readonly FoundMember[]> {
  const finding = storage.members(mountedVolumeOf(mounted, record));
  return withTimeLimit(finding, MEMBERS_LIMIT_MS, `finding the members of volume ${handle}`);
}

/** Nothing else runs on a volume while its devices are listed: those of a running operation come and go. */
async function findMembersWhileIdle(storage: Measurable, state: VolumeState): Promise<void> {
  const { mounted } = state;
  if (mounted === undefined || state.closing || state.hung || state.running !== undefined) return;
  const members = await findMembers(storage, mounted, state).catch((error: unknown) => {
    // A disk that was taken away does not come back under a mounted filesystem: it stands until that is mounted anew. A file that was cut
    // can be what it was.
    if (error instanceof StorageError && error.code === "MembersMissing")
      state.problem = { reason: "MembersMissing", message: error.message };
    throw error;
  });
  if (state.mounted !== mounted || state.running !== undefined) return;
  state.members = members;
  if (state.record.backend === "loop" && state.problem?.reason === "MembersMissing") state.problem = undefined;
  if (!members.some((member) => member.state === "Leaving")) state.leavingProblem = undefined;
  if (state.record.backend !== "span" || state.record.members.every(({ wanted }) => wanted !== "Spare"))
    state.spareProblem = undefined;
}

/** Several members have told their sizes with their names. Where they could not be asked what was known last stands. */
async function measuredBytes(storage: Measurable, state: VolumeState): Promise<number | undefined> {
  const { members, record, hung } = state;
  const sumBytes = sumOfPresent(members);
  if (sumBytes !== undefined) return sumBytes;
  if (hung && record.backend === "span") return state.sizeBytes;
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
