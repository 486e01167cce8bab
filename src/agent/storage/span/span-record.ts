// What the node's disk knows of a span: how far its one formatting has come, and which members are on their way out (R1). It is
// written before each step that it describes; it never decides anything.
import { join } from "node:path";
import { z } from "zod";
import { FS_TYPES } from "../../../api/filesystem-layout.ts";
import type { SpanMember } from "../../member-drivers/span-member.ts";
import { readRecord } from "../block/read-record.ts";
import type { SpanVolume } from "../storage.ts";
import type { SpanHost } from "./span-host.ts";

const removal = z.object({
  member: z.string(),
  devid: z.int(),
  deviceUUID: z.string(),
  /** What its driver calls it, and the UID of its PersistentVolume where that is known; absent in records of earlier versions. */
  volume: z
    .object({ driver: z.string(), volumeHandle: z.string(), persistentVolumeUID: z.string().optional() })
    .optional(),
  /** The number of the leader that it is done for. */
  epoch: z.int().optional(),
  /** Of the device, bytes: for people, who are told of it until the layout forgets it. */
  sizeBytes: z.int(),
  /** leaving: data may still be moved off it. released: out of the filesystem, wiped, given back to its driver. */
  state: z.enum(["leaving", "released"]),
});
export type Removal = z.infer<typeof removal>;

const spanRecord = z.object({
  volumeUID: z.string(),
  fsid: z.string(),
  fsType: z.enum(FS_TYPES),
  /** formatting: mkfs may have begun. formatted: it has ended well. mounted: data may be on it. */
  state: z.enum(["formatting", "formatted", "mounted"]),
  removals: z.array(removal),
});
export type SpanRecord = z.infer<typeof spanRecord>;

const SUFFIX = ".span.json";

export function spanRecordPath({ recordDirectory }: Pick<SpanHost, "recordDirectory">, { handle }: SpanVolume): string {
  return join(recordDirectory, `${handle}${SUFFIX}`);
}

export function spanRecordText(record: SpanRecord): string {
  return `${JSON.stringify(record, null, 2)}\n`;
}

export function readSpanRecord(host: Pick<SpanHost, "recordDirectory">, volume: SpanVolume): SpanRecord | undefined {
  return readRecord(spanRecordPath(host, volume), spanRecord, volume.handle);
}

/** Replaces what is recorded of this removal. Removals of members that have left the layout are dropped: no name comes again. */
export function withRemoval(volume: SpanVolume, record: SpanRecord | undefined, removal: Removal): SpanRecord {
  const names = new Set(volume.members.map(({ name }) => name));
  const others = record?.removals.filter(({ member }) => member !== removal.member && names.has(member)) ?? [];
  const { volumeUID, fsid, fsType } = volume;
  return { volumeUID, fsid, fsType, state: record?.state ?? "mounted", removals: [...others, removal] };
}

export function withoutRemoval(record: SpanRecord, { member }: Removal): SpanRecord {
  return { ...record, removals: record.removals.filter((removal) => removal.member !== member) };
}

/**
 * Of the device that it is now. One that was taken out and added again, on another node for one, has got another UUID by that: what is recorded
 * of its former life says nothing of it. Nor is one believed that was given back, where a node has found it in the filesystem and did not say as
 * which device; or of which no device is recorded, since it was never in the filesystem then, where one is reported by now.
 */
export function removalOf(
  record: SpanRecord | undefined,
  { name, wasInside, reported }: Pick<SpanMember, "name" | "wasInside" | "reported">,
): Removal | undefined {
  const removal = record?.removals.find(({ member }) => member === name);
  if (removal === undefined) return undefined;
  if (reported === undefined) return wasInside && removal.state === "released" ? undefined : removal;
  return removal.deviceUUID === reported.deviceUUID ? removal : undefined;
}
