// What the node's disk itself knows about a member: whose it is, and how far its one formatting has come. It is written before
// each step that it describes, so that mkfs can never run twice on a member that may hold data; it never decides anything.
import { join } from "node:path";
import { z } from "zod";
import { FS_TYPES } from "../../../api/filesystem-layout.ts";
import type { LoopVolume, LvmVolume } from "../storage.ts";
import { readRecord } from "./read-record.ts";

const memberRecord = z.object({
  volumeUID: z.string(),
  /** The one or the other names the member. */
  memberFile: z.string().optional(),
  logicalVolume: z.string().optional(),
  /** This member's place among the filesystem's `count` members. */
  index: z.int(),
  count: z.int(),
  fsid: z.string(),
  fsType: z.enum(FS_TYPES),
  /** formatting: mkfs may have begun. formatted: it has ended well. mounted: data may be on it. */
  state: z.enum(["formatting", "formatted", "mounted"]),
});
export type MemberRecord = z.infer<typeof memberRecord>;
export type MemberState = MemberRecord["state"];

const SUFFIX = ".member.json";

/** `name`: the member's, a plain file name. */
export function memberRecordPath(recordDirectory: string, name: string): string {
  return join(recordDirectory, `${name}${SUFFIX}`);
}

export function memberRecordText(volume: LoopVolume | LvmVolume, state: MemberState): string {
  const { volumeUID, fsid, fsType } = volume;
  const member = volume.backend === "loop" ? { memberFile: volume.memberFile } : { logicalVolume: volume.volumeID };
  const record: MemberRecord = { volumeUID, ...member, index: 0, count: 1, fsid, fsType, state };
  return `${JSON.stringify(record, null, 2)}\n`;
}

export function readMemberRecord(recordDirectory: string, name: string): MemberRecord | undefined {
  return readRecord(memberRecordPath(recordDirectory, name), memberRecord, name);
}
