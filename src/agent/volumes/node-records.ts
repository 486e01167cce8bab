// What the agent remembers of its volumes on the node's own disk: enough to go on after a restart, and to avert a full disk,
// without the API server. One JSON file per volume; the files of other programs in the directory are left alone.
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import * as z from "zod";
import { volumeUIDOf } from "../../contracts/identity.ts";
import { claimReference } from "../../contracts/kinds/filesystem.ts";
import {
  emergencyGrant,
  FS_TYPES,
  lastOperation,
  operation,
  VOLUME_MODES,
} from "../../contracts/kinds/filesystem-layout.ts";
import { lastTrim } from "../../contracts/kinds/trim.ts";
import { shortList } from "../../contracts/schema/schema.ts";
import { createKeyedQueue } from "../../platform/process/async/keyed-queue.ts";
import { type Durability, type FilePort, syncedPath } from "../../platform/process/effects/file-port.ts";
import { spanMember } from "../member-drivers/span-member.ts";

const commonFields = {
  handle: z.string().refine((handle) => volumeUIDOf(handle) !== undefined, "not a volume handle"),
  fsType: z.enum(FS_TYPES),
  /**
   * A member was made (loop, lvm) or formatted (span) once: when it is missing now, data is missing, and no empty one takes its place.
   */
  memberMade: z.boolean(),
  claimRef: claimReference.optional(),
  /** Present while the volume is staged. */
  stagingPath: z.string().optional(),
  /** The highest epoch ever accepted for it. */
  epoch: z.int().min(0),
  grant: emergencyGrant.optional(),
  /** When it was read; absent: an agent wrote it that did not say. */
  grantRead: z.object({ of: z.string(), monotonicMs: z.number(), bootID: z.string().optional() }).optional(),
  operation: operation.optional(),
  lastOperation: lastOperation.optional(),
  /** The target that was carried out or given up last; an emergency's end does not change it. */
  endedDecidedAt: z.string().optional(),
  /** When trims by a policy's schedule were first wanted. */
  trimWantedAt: z.string().optional(),
  lastTrim: lastTrim.optional(),
};

const loopRecord = z.object({
  backend: z.literal("loop"),
  ...commonFields,
  memberName: z.string(),
  memberFile: z.string(),
  /** The size the member is made with when it never existed, bytes. */
  initialSizeBytes: z.int().positive().optional(),
});
export type LoopRecord = z.infer<typeof loopRecord>;

const lvmRecord = z.object({
  backend: z.literal("lvm"),
  ...commonFields,
  /** A raw block volume has none. */
  fsType: z.enum(FS_TYPES).optional(),
  /** Absent: Filesystem. */
  volumeMode: z.enum(VOLUME_MODES).optional(),
  memberName: z.string(),
  deviceClass: z.string(),
  volumeID: z.string(),
});
export type LvmRecord = z.infer<typeof lvmRecord>;

/** Far more than a layout names. */
const MEMBERS_LIMIT = 256;

const spanRecord = z.object({
  backend: z.literal("span"),
  ...commonFields,
  /** In the order of the layout. */
  members: shortList(spanMember, MEMBERS_LIMIT),
  /**
   * That were in the filesystem when it was last mounted here, and that the layout names no more: for people who look for them by their
   * drivers. Nothing is decided by them. Absent: none, or an earlier version's record.
   */
  former: shortList(spanMember, MEMBERS_LIMIT).optional(),
});
export type SpanRecord = z.infer<typeof spanRecord>;

const nodeRecord = z.preprocess(withBackend, z.discriminatedUnion("backend", [loopRecord, lvmRecord, spanRecord]));
export type NodeRecord = z.infer<typeof nodeRecord>;

/** Agents that knew loop members only wrote none. */
function withBackend(record: unknown): unknown {
  return typeof record === "object" ? { backend: "loop", ...record } : record;
}

export interface NodeRecords {
  /**
   * All readable records; one that cannot be read is reported and left as it is. In its place comes what was synced of it before: a power cut
   * may leave a newer one empty that was not synced.
   */
  readAll(): NodeRecord[];
  /** In the order of the calls. Beginnings and ends of operations need not outlive a power cut: nothing is mounted after one. */
  write(record: NodeRecord, durability: Durability): Promise<void>;
  remove(handle: string): Promise<void>;
}

const SUFFIX = ".json";

export function createNodeRecords(
  directory: string,
  files: FilePort,
  reportUnreadable: (path: string, error: unknown) => void,
): NodeRecords {
  const writes = createKeyedQueue();
  const pathOf = (handle: string): string => join(directory, `${handle}${SUFFIX}`);
  return {
    readAll: () => readRecords(directory, reportUnreadable),
    write: (record, durability) => {
      const text = `${JSON.stringify(record, null, 2)}\n`;
      return writes.run(record.handle, () =>
        files.writeWhole("agent-record/write", pathOf(record.handle), text, 0o600, durability),
      );
    },
    remove: (handle) => writes.run(handle, () => files.remove("agent-record/remove", pathOf(handle))),
  };
}

function readRecords(directory: string, reportUnreadable: (path: string, error: unknown) => void): NodeRecord[] {
  return readdirSync(directory)
    .filter((name) => name.endsWith(SUFFIX))
    .flatMap((name) => {
      const path = join(directory, name);
      const record = readRecord(path, reportUnreadable);
      if (record !== undefined) return [record];
      const synced = syncedPath(path);
      return existsSync(synced) ? (readRecord(synced, reportUnreadable) ?? []) : [];
    });
}

function readRecord(path: string, reportUnreadable: (path: string, error: unknown) => void): NodeRecord | undefined {
  try {
    return nodeRecord.parse(JSON.parse(readFileSync(path, "utf8")));
  } catch (error) {
    reportUnreadable(path, error);
    return undefined;
  }
}
