// A member's device that carries anything is not used: it may be somebody's data, or a member that a power cut has half added. It is left as
// it is, never wiped, and whoever wants room takes the others. What was found so is remembered, for the layout to say it.
import type { BlockDevice } from "../../member-drivers/block-device.ts";
import type { SpanMember } from "../../member-drivers/span-member.ts";
import { probe } from "../block/probe-device.ts";
import { type MountedSpan, StorageError } from "../storage.ts";
import { identityWithin } from "./device-identity.ts";
import { memberKey, type SpanHost } from "./span-host.ts";

/** Throws SignatureFound. */
export async function assertBlank(
  host: SpanHost,
  volume: MountedSpan,
  member: SpanMember,
  device: BlockDevice,
): Promise<void> {
  const [found] = await probe(host.tools, volume, device.path);
  if (found === undefined) {
    host.refused.delete(memberKey(volume, member));
    return;
  }
  const isFormer = (await identityWithin(host.tools, volume.fsid, device)) !== undefined;
  const why =
    `its device ${device.path} carries a ${found.type} signature (UUID ${found.uuid || "none"})` +
    (isFormer ? ": it was taken out of this very filesystem before" : "");
  host.refused.set(memberKey(volume, member), why);
  throw new StorageError(
    "SignatureFound",
    `member ${member.name} of ${volume.handle}: ${why}; it is left as it is and not used. If its data is not needed, wipe the device on this ` +
      "node, or set the member's state to Removed in its layout",
  );
}

export function isRefusal(error: unknown): error is StorageError {
  return error instanceof StorageError && error.code === "SignatureFound";
}

/** Why it was not used when it was looked at last. */
export function refusalOf(
  { refused }: SpanHost,
  volume: Pick<MountedSpan, "handle">,
  member: SpanMember,
): string | undefined {
  return refused.get(memberKey(volume, member));
}
