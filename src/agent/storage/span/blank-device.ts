// A member's device that carries anything is not used: it may be somebody's data, or a member that a power cut has half added. It is left as
// it is, never wiped, and whoever wants room takes the others. What was found so is remembered, for the layout to say it.
import type { BlockDevice } from "../../member-drivers/block-device.ts";
import type { SpanMember } from "../../member-drivers/span-member.ts";
import type { Signature } from "../block/format-decision.ts";
import { probe } from "../block/probe-device.ts";
import { type MountedSpan, StorageError } from "../storage.ts";
import { identityWithin } from "./device-identity.ts";
import { memberKey, type Refusal, type SpanHost } from "./span-host.ts";

/** Throws SignatureFound. */
export async function assertBlank(
  host: SpanHost,
  volume: MountedSpan,
  member: SpanMember,
  device: BlockDevice,
): Promise<void> {
  const why = await findRefusal(host, volume, member, device);
  if (why === undefined) return;
  throw new StorageError(
    "SignatureFound",
    `member ${member.name} of ${volume.handle}: ${why}; it is left as it is and not used. If its data is not needed, wipe the device on this ` +
      "node, or set the member's state to Removed in its layout",
  );
}

/** Why the device is not used, or undefined: looked at now, and remembered. `isOwn` says of a signature that it is no reason. */
export async function findRefusal(
  host: SpanHost,
  volume: MountedSpan,
  member: SpanMember,
  device: BlockDevice,
  isOwn: (signature: Signature) => boolean = () => false,
): Promise<string | undefined> {
  const found = (await probe(host.tools, volume, device.path)).find((signature) => !isOwn(signature));
  if (found === undefined) {
    host.refused.delete(memberKey(volume, member));
    return undefined;
  }
  // Whatever it was ready for: it is no spare any more.
  host.spares.delete(memberKey(volume, member));
  const isOfThis = (await identityWithin(host.tools, volume.fsid, device)) !== undefined;
  const why =
    `its device ${device.path} carries a ${found.type} signature (UUID ${found.uuid || "none"})` +
    (isOfThis ? "; it carries this filesystem's own UUID: it was taken out of it before, or half added" : "");
  noteRefusal(host, volume, member, why);
  return why;
}

export function noteRefusal(
  { refused, clock }: SpanHost,
  volume: Pick<MountedSpan, "handle">,
  member: SpanMember,
  why: string,
): void {
  refused.set(memberKey(volume, member), { why, lookedMs: clock.monotonicMs() });
}

export function isRefusal(error: unknown): error is StorageError {
  return error instanceof StorageError && error.code === "SignatureFound";
}

/** Of a member that no record of a removal speaks of: whether it is left where it is, although its layout asks it to go. */
export function isHeldBack(host: SpanHost, volume: Pick<MountedSpan, "handle">, member: SpanMember): boolean {
  return member.refused !== true && refusalOf(host, volume, member) !== undefined;
}

/** What was not used before is tried last: its driver may be slow. */
export function refusedLast<Member extends SpanMember>(
  host: SpanHost,
  volume: Pick<MountedSpan, "handle">,
  members: readonly Member[],
): Member[] {
  const isRefused = (member: SpanMember): boolean => refusalOf(host, volume, member) !== undefined;
  return [...members].sort((one, other) => Number(isRefused(one)) - Number(isRefused(other)));
}

/** Where it was not used when it was looked at last. */
export function refusalOf(
  { refused }: SpanHost,
  volume: Pick<MountedSpan, "handle">,
  member: SpanMember,
): Refusal | undefined {
  return refused.get(memberKey(volume, member));
}
