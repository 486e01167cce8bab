// Makes a logical volume smaller, and makes sure what became of it. The token is on the node before lvmd gets it, and stays there until
// lvmd has reported the outcome. A reduction that comes late would cut what has grown since, and one under way would clear it. lvmd first
// clears what it cuts off, which takes time: an operation that needs the volume during that time cancels the reduction.

import { randomUUID } from "node:crypto";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import * as z from "zod";
import { deviceSizeBytes } from "../filesystem/devices-and-mounts.ts";
import type { LvmMember } from "../storage.ts";
import { StorageError } from "../storage-error.ts";
import { findVolume } from "./logical-volume.ts";
import { askLvmd, type LvmHost, nameOf } from "./lvm-host.ts";

/**
 * Returns the size that it has then: fromBytes where the signal came before it was done. Throws with the record in place when lvmd did not
 * do it, whatever it answered: endReduction asks it what became of it.
 */
export async function reduce(
  host: LvmHost,
  volume: LvmMember & { readonly device: string },
  fromBytes: number,
  toBytes: number,
  signal: AbortSignal = new AbortController().signal,
): Promise<number> {
  const found = await findVolume(host, volume);
  if (found?.sizeBytes !== fromBytes)
    throw new StorageError(
      "CommandFailed",
      `compare blockdev --getsize64 ${volume.device} (${fromBytes}) with lvs (${found?.sizeBytes ?? "none"}): ${nameOf(volume)} is not reduced`,
    );
  const record: ReductionRecord = { token: randomUUID(), lvUUID: found.uuid, fromBytes, toBytes };
  const text = reductionRecordText(record);
  await host.files.writeWhole("shrink/record-reduction", reductionRecordPath(host, volume), text);
  await host.files.writeWhole("shrink/record-beside-lvmd", reductionBesideLvmdPath(host, volume), text);
  const { token } = record;
  let reachedBytes: number;
  try {
    const request = { lvUuid: found.uuid, fromBytes, toBytes, token };
    reachedBytes = await askLvmd(volume, host.lvmd.reduce(request, signal));
  } catch (error) {
    if (!signal.aborted) throw error;
    await endReduction(host, volume);
    return deviceSizeBytes(volume.device);
  }
  await forget(host, volume);
  const shownBytes = deviceSizeBytes(volume.device);
  if (reachedBytes === toBytes && shownBytes === toBytes) return toBytes;
  throw new StorageError(
    "CommandFailed",
    `see lvs and dmesg: ${volume.device} was to be reduced to ${toBytes} bytes, lvmd says ${reachedBytes}, and it has ${shownBytes}`,
  );
}

/** Returns when no reduction of the volume is under way, and none can start. Throws WaitingForMember while lvmd does not say so. */
export async function endReduction(host: LvmHost, volume: LvmMember): Promise<void> {
  const tokens = recordedTokens(host, volume);
  for (const token of tokens) await askLvmd(volume, host.lvmd.cancelReduce(token));
  if (tokens.size > 0) await forget(host, volume);
}

async function forget(host: LvmHost, volume: LvmMember): Promise<void> {
  await host.files.remove("shrink/forget-reduction", reductionRecordPath(host, volume));
  await host.files.remove("shrink/forget-beside-lvmd", reductionBesideLvmdPath(host, volume));
}

/**
 * What the node knows of a reduction that was asked for. It is stored from before the call to lvmd until the outcome is known, since lvmd
 * may still be working on it. On the node's disk it outlives agents and power cuts. Next to lvmd's socket it also outlives an agent whose
 * state directory was lost, for as long as any lvmd can work on it.
 */
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

/**
 * Tokens of all reductions that may be under way. Throws where a record cannot be read: a volume that has grown since could be cut, or
 * cleared.
 */
export function recordedTokens(host: LvmHost, volume: LvmMember): Set<string> {
  const paths = [reductionRecordPath(host, volume), reductionBesideLvmdPath(host, volume)];
  return new Set(paths.filter((path) => existsSync(path)).map((path) => readRecord(path).token));
}

function readRecord(path: string): ReductionRecord {
  try {
    return reductionRecord.parse(JSON.parse(readFileSync(path, "utf8")));
  } catch (error) {
    throw new StorageError(
      "CommandFailed",
      `restore ${path}, or restart lvmd and then delete it: this record of a reduction is unreadable`,
      error,
    );
  }
}
