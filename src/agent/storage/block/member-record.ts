// What the node's disk itself knows about a member: whose it is, and how far its one formatting has come. It is written before
// each step that it describes, so that mkfs can never run twice on a member that may hold data; it never decides anything.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import * as z from "zod";
import { FS_TYPES } from "../../../contracts/kinds/filesystem-layout.ts";
import { StorageError } from "../storage-error.ts";

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

/** What is recorded of a volume, and how its member is named. */
type RecordedVolume = Pick<MemberRecord, "volumeUID" | "fsid" | "fsType"> &
  ({ readonly backend: "loop"; readonly memberFile: string } | { readonly backend: "lvm"; readonly volumeID: string });

export function memberRecordText(volume: RecordedVolume, state: MemberState): string {
  const { volumeUID, fsid, fsType } = volume;
  const member = volume.backend === "loop" ? { memberFile: volume.memberFile } : { logicalVolume: volume.volumeID };
  const record: MemberRecord = { volumeUID, ...member, index: 0, count: 1, fsid, fsType, state };
  return `${JSON.stringify(record, null, 2)}\n`;
}

export function readMemberRecord(recordDirectory: string, name: string): MemberRecord | undefined {
  return readRecord(memberRecordPath(recordDirectory, name), memberRecord, name);
}

/**
 * Reads what the node's disk knows of a formatting. "None" is said only where there is none: mkfs depends on it. Undefined when there is
 * none; throws AlreadyFormatted when it cannot be understood. `subject` is what may hold data.
 */
export function readRecord<Schema extends z.ZodType>(
  path: string,
  schema: Schema,
  subject: string,
): z.infer<Schema> | undefined {
  let text: string;
  try {
    text = readFileSync(path, "utf8");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw error;
  }
  try {
    return schema.parse(JSON.parse(text));
  } catch (error) {
    throw new StorageError(
      "AlreadyFormatted",
      `the record ${path} cannot be understood, so nothing says that ${subject} holds no data; restore the record`,
      error,
    );
  }
}
