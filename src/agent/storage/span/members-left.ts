// The members that a span still has by what this node has recorded, and whether they are attached.
import { describeAwaited, isAttached, type SpanMember } from "../../member-drivers/span-member.ts";
import { type SpanVolume, StorageError } from "../storage.ts";
import type { SpanHost } from "./span-host.ts";
import { readSpanRecord, removalOf } from "./span-record.ts";

/** Without those that have been given back; one that shall leave may still hold data. */
export function membersLeft(host: SpanHost, volume: SpanVolume): readonly SpanMember[] {
  const record = readSpanRecord(host, volume);
  return volume.members.filter((member) => removalOf(record, member)?.state !== "released");
}

/** Throws WaitingForMember, which names those that are not. */
export function assertAttached({ handle }: SpanVolume, members: readonly SpanMember[]): void {
  const awaited = members.filter((member) => !isAttached(member));
  if (awaited.length === 0) return;
  throw new StorageError("WaitingForMember", `${handle} waits for ${awaited.map(describeAwaited).join(" and ")}`);
}
