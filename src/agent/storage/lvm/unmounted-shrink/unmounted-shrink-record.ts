// What the node's disk knows of a shrink of an unmounted filesystem: how far it has come, and what tells afterwards whether somebody has
// mounted the filesystem since. Written before each step that it describes, and gone only when nothing of it is left.
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";
import { type LvmMember, StorageError } from "../../storage.ts";
import { UNMOUNTED_SHRINK_TAG } from "../content-tags.ts";
import { type LvmHost, nameOf } from "../lvm-host.ts";

const unmountedShrinkRecord = z.object({
  /**
   * Begun: the snapshot may be there, and the filesystem is untouched, or is again what it was. Guarded: the snapshot is there, and the
   * filesystem may have been changed in any way. Proven: the filesystem is smaller, and was found to be whole; there is no way back.
   * RollingBack: from Guarded, what has happened since the snapshot is being taken back.
   */
  phase: z.enum(["Begun", "Guarded", "Proven", "RollingBack"]),
  /** Of this attempt alone. */
  snapshot: z.string(),
  /** Of the volume. */
  fromBytes: z.int(),
  toBytes: z.int(),
  /** Of the filesystem, before. */
  filesystemBytes: z.int(),
  mountedAtSeconds: z.int(),
  /** 0: it is set so before a shrink begins. Absent in records of former agents. */
  mountCount: z.int().optional(),
});
export type UnmountedShrinkRecord = z.infer<typeof unmountedShrinkRecord>;

export function unmountedShrinkPath({ recordDirectory }: LvmHost, { volumeID }: LvmMember): string {
  return join(recordDirectory, `${volumeID}.unmounted-shrink.json`);
}

export function unmountedShrinkText(record: UnmountedShrinkRecord): string {
  return `${JSON.stringify(record, null, 2)}\n`;
}

/** Undefined where none is under way. Throws ShrinkInDoubt where that cannot be told. */
export function readUnmountedShrink(host: LvmHost, volume: LvmMember): UnmountedShrinkRecord | undefined {
  const path = unmountedShrinkPath(host, volume);
  if (!existsSync(path)) return undefined;
  try {
    return unmountedShrinkRecord.parse(JSON.parse(readFileSync(path, "utf8")));
  } catch (error) {
    throw new StorageError(
      "ShrinkInDoubt",
      `the record ${path} cannot be understood, so nobody can tell how far a shrink of ${nameOf(volume)} of ${volume.handle} has come; ` +
        `restore it, or check the filesystem by e2fsck and delete the record together with the volume's tag ${UNMOUNTED_SHRINK_TAG}`,
      error,
    );
  }
}
