// What the node knows of a reduction that was asked for: its token, kept from before lvmd is called until its outcome is known, since lvmd may
// still be at it. In two places: on the node's disk it outlives agents and power cuts; beside lvmd's socket it outlives also an agent whose
// state directory was lost, for as long as any lvmd can be at it.
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

export function reductionRecordPath({ recordDirectory }: LvmHost, volume: LvmMember): string {
  return join(recordDirectory, nameOfRecord(volume));
}

export function reductionBesideLvmdPath({ socketDirectory }: LvmHost, volume: LvmMember): string {
  return join(socketDirectory, nameOfRecord(volume));
}

function nameOfRecord({ volumeID }: LvmMember): string {
  return `${volumeID}.reduction.json`;
}

export function reductionRecordText(record: ReductionRecord): string {
  return `${JSON.stringify(record, null, 2)}\n`;
}

/** Of all that may be under way. Throws where that cannot be told: a volume that grew meanwhile could be cut, or cleared. */
export function recordedTokens(host: LvmHost, volume: LvmMember): Set<string> {
  const paths = [reductionRecordPath(host, volume), reductionBesideLvmdPath(host, volume)];
  return new Set(paths.filter((path) => existsSync(path)).map((path) => readRecord(path, volume).token));
}

function readRecord(path: string, volume: LvmMember): ReductionRecord {
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
