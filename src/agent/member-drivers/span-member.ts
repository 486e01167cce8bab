// One member of a span as this node's record stores it: what the layout says of a claim's volume, enough to call its driver with. It names
// Secrets and never contains them.
import * as z from "zod";
import { formatBytes } from "../../contracts/quantities/quantity.ts";

const secretReference = z.object({ namespace: z.string(), name: z.string() });
export type SecretReference = z.infer<typeof secretReference>;

/** A device of a btrfs, as its superblock has it. */
const reportedDevice = z.object({ deviceUUID: z.string(), devid: z.int() });

/** What the member's driver calls it, and what the driver wants to get with each call. */
const driverVolume = z.object({
  driver: z.string(),
  volumeHandle: z.string(),
  volumeAttributes: z.record(z.string(), z.string()),
  nodeStageSecretRef: secretReference.optional(),
  nodePublishSecretRef: secretReference.optional(),
  nodeExpandSecretRef: secretReference.optional(),
});
export type DriverVolume = z.infer<typeof driverVolume>;

export const spanMember = z.object({
  /** Becomes a directory; checked when it is read from a layout. */
  name: z.string(),
  claim: z.string(),
  /** Removed: it shall leave the filesystem. Spare: it stays next to the filesystem, not in it. */
  wanted: z.enum(["Present", "Spare", "Removed"]),
  /** An emergency has made a spare Present here, and its layout may not say so yet. */
  taken: z.boolean().optional(),
  /** It is next to the filesystem to take others' place: no emergency counts on it where a plain spare is ready. */
  replaces: z.boolean().optional(),
  /** The layout's spec says that its device carries something: who asks it to go knows that, and has decided about it. */
  refused: z.boolean().optional(),
  /** What its device carried when a node last checked it; absent: nothing that is known. */
  carried: z.string().optional(),
  /** It was a device of the filesystem at the last check, on this node or another. */
  wasInside: z.boolean(),
  /** Which device, as last reported; absent while no node has checked. */
  reported: reportedDevice.optional(),
  /** The size that was asked for, bytes; absent on a rebuilt layout. */
  sizeBytes: z.int().positive().optional(),
  /** What its volume has become by now, bytes; absent until that is known. */
  capacityBytes: z.int().positive().optional(),
  /** Absent until its claim is bound. */
  volume: driverVolume.optional(),
  /** The UID of that volume's PersistentVolume, where the layout says it. */
  persistentVolumeUID: z.string().optional(),
  /** Present while it is attached to this node: without, no code touches its device. */
  attachment: z.object({ context: z.record(z.string(), z.string()) }).optional(),
});
export type SpanMember = z.infer<typeof spanMember>;

export type AttachedMember = SpanMember & {
  readonly volume: DriverVolume;
  readonly attachment: NonNullable<SpanMember["attachment"]>;
};

export function isAttached(member: SpanMember): member is AttachedMember {
  return member.volume !== undefined && member.attachment !== undefined;
}

/**
 * Without which the filesystem is not mounted: all that it was made of. One that shall only make it larger is not waited for; where
 * nothing is known of a filesystem that was made once, all are.
 */
export function requiredMembers(members: readonly SpanMember[], formatted: boolean): readonly SpanMember[] {
  const inside = members.filter(({ wasInside }) => wasInside);
  if (inside.length > 0) return inside;
  const wanted = members.filter((member) => member.wanted === "Present");
  return formatted ? wanted : wanted.slice(0, 1);
}

/** Where no member is known to hold the filesystem, each may: all are checked before one is formatted. */
export function membersWithVolume(members: readonly SpanMember[]): readonly SpanMember[] {
  return members.filter(({ volume }) => volume !== undefined);
}

/** What its device can have on this node, bytes: what was asked for, and its driver has carried out. */
export function deliveredBytes({ sizeBytes, capacityBytes }: SpanMember): number {
  return Math.min(sizeBytes ?? 0, capacityBytes ?? 0);
}

export function isGrowing({ sizeBytes, capacityBytes }: SpanMember): boolean {
  return sizeBytes !== undefined && capacityBytes !== undefined && capacityBytes < sizeBytes;
}

/** For people: the member, its claim, and what is being done about its volume. */
export function describeGrowing({ name, claim, sizeBytes = 0, capacityBytes = 0 }: SpanMember): string {
  return `member ${name} (the volume of claim ${claim} has ${formatBytes(capacityBytes)} of the ${formatBytes(sizeBytes)} asked for)`;
}

/** For people: the member, its claim, and why it is not here. */
export function describeAwaited({ name, claim, volume }: SpanMember): string {
  return volume === undefined
    ? `member ${name} (claim ${claim} is not bound yet)`
    : `member ${name} (claim ${claim} is not attached to this node by ${volume.driver} yet)`;
}

/** For people who have to find the member's volume by its driver. */
export function describeVolume({ name, claim, volume }: SpanMember): string {
  return volume === undefined
    ? `member ${name} (claim ${claim} is not bound yet)`
    : `member ${name} (volume ${volume.volumeHandle} of driver ${volume.driver}, claim ${claim})`;
}
