// What the node's disk knows of a reduction that was asked for: its token, kept from before lvmd is called until its outcome is known. It
// outlives agents and power cuts, since lvmd may still be at it.
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";
import { type LvmMember, StorageError } from "../storage.ts";
import { type LvmHost, nameOf } from "./lvm-host.ts";

const reductionRecord = z.object({
  token: z.string(),
  lvUUID: z.string(),
  fromBytes: z.int(),
  toBytes: z.int(),
});
export type ReductionRecord = z.infer<typeof reductionRecord>;

export function reductionRecordPath({ recordDirectory }: LvmHost, { volumeID }: LvmMember): string {
  return join(recordDirectory, `${volumeID}.reduction.json`);
}

export function reductionRecordText(record: ReductionRecord): string {
  return `${JSON.stringify(record, null, 2)}\n`;
}

/** Undefined where none is under way. Throws where that cannot be told: a volume that grew meanwhile could be cut. */
export function readReductionRecord(host: LvmHost, volume: LvmMember): ReductionRecord | undefined {
  const path = reductionRecordPath(host, volume);
  if (!existsSync(path)) return undefined;
  try {
    return reductionRecord.parse(JSON.parse(readFileSync(path, "utf8")));
  } catch (error) {
    throw new StorageError(
      "CommandFailed",
      `the record ${path} cannot be understood, so nobody can tell lvmd not to reduce ${nameOf(volume)} of ${volume.handle} any ` +
        "more; restore the record, or delete it once lvmd has been restarted and the volume keeps its size",
      error,
    );
  }
}
