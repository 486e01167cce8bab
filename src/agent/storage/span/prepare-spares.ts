// The spare of a mounted span: its device is brought in advance and kept beside the filesystem, so that taking it in needs neither its
// driver nor the API server. A device that carries anything is no spare, and nothing is ever wiped or formatted here.
import type { BlockDevice } from "../../member-drivers/block-device.ts";
import { isAttached, type SpanMember } from "../../member-drivers/span-member.ts";
import { type MountedSpan, StorageError } from "../storage.ts";
import { isRefusal, refusedLast } from "./blank-device.ts";
import { bringBlank } from "./bring-blank.ts";
import { membersInside, publishedDevice } from "./span-devices.ts";
import { memberKey, type SpanHost } from "./span-host.ts";

/**
 * The signal tells it to give way: no driver of a spare is waited for then. One whose device carries something is left out, and found as such
 * (find-members.ts). What else one of them fails of is thrown once the others have had their turn.
 */
export async function prepareSpares(host: SpanHost, volume: MountedSpan, signal: AbortSignal): Promise<void> {
  const inside = new Set(membersInside(host, volume).map(({ member }) => member.name));
  const beside = volume.members.filter(
    (member) =>
      member.wanted === "Spare" &&
      isAttached(member) &&
      !inside.has(member.name) &&
      preparedDevice(host, volume, member) === undefined,
  );
  const failures: unknown[] = [];
  for (const member of refusedLast(host, volume, beside)) {
    if (signal.aborted)
      throw new StorageError(
        "WaitingForMember",
        `spare member ${member.name} of ${volume.handle} is brought here once what goes first is done`,
      );
    try {
      host.spares.set(memberKey(volume, member), await bringBlank(host, volume, member, signal));
    } catch (error) {
      if (!isRefusal(error)) failures.push(error);
    }
  }
  if (failures.length > 0) throw failures[0];
}

/** What this process has had published for the member, if it is still there. */
export function preparedDevice(host: SpanHost, volume: MountedSpan, member: SpanMember): BlockDevice | undefined {
  const prepared = host.spares.get(memberKey(volume, member));
  const present = prepared && publishedDevice(host, volume, member);
  return present?.name === prepared?.name ? present : undefined;
}

export function forgetSpare(host: SpanHost, volume: Pick<MountedSpan, "handle">, member: SpanMember): void {
  host.spares.delete(memberKey(volume, member));
  host.refused.delete(memberKey(volume, member));
}
