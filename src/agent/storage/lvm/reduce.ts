// Makes a logical volume smaller, and makes sure what became of it. The token is on the node before lvmd hears it, and stays there until lvmd
// has said the outcome: a reduction that comes late would cut what has grown since, and one under way would clear it. lvmd clears what is cut
// off first, which takes its time: whoever needs the volume meanwhile has it cancelled.
import { randomUUID } from "node:crypto";
import { formatBytes } from "../../../units/quantity.ts";
import { deviceSizeBytes } from "../loop/loop-device.ts";
import { type LvmMember, StorageError } from "../storage.ts";
import { findVolume } from "./find-logical-volume.ts";
import { askLvmd, type LvmHost, nameOf } from "./lvm-host.ts";
import {
  type ReductionRecord,
  recordedTokens,
  reductionBesideLvmdPath,
  reductionRecordPath,
  reductionRecordText,
} from "./reduction-record.ts";

/**
 * Returns the size that it has then: fromBytes where the signal came before it was done. Throws with the record in place when lvmd did not
 * do it, whatever it answered: settleReduction asks it what became of it.
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
      `member ${nameOf(volume)} of ${volume.handle} is not reduced: its device has ${fromBytes} bytes, and LVM says ` +
        `${found?.sizeBytes ?? "that there is none"}; compare lvs with blockdev --getsize64 ${volume.device}`,
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
    await settleReduction(host, volume);
    return deviceSizeBytes(volume.device);
  }
  await forget(host, volume);
  const shownBytes = deviceSizeBytes(volume.device);
  if (reachedBytes === toBytes && shownBytes === toBytes) return toBytes;
  throw new StorageError(
    "CommandFailed",
    `member ${nameOf(volume)} of ${volume.handle} was to be reduced to ${formatBytes(toBytes)}: lvmd says ${reachedBytes} bytes, and ` +
      `${volume.device} has ${shownBytes}`,
  );
}

/** Returns when no reduction of the volume is under way, or can begin, any more. Throws WaitingForMember while lvmd does not say so. */
export async function settleReduction(host: LvmHost, volume: LvmMember): Promise<void> {
  const tokens = recordedTokens(host, volume);
  for (const token of tokens) await askLvmd(volume, host.lvmd.cancelReduce(token));
  if (tokens.size > 0) await forget(host, volume);
}

async function forget(host: LvmHost, volume: LvmMember): Promise<void> {
  await host.files.remove("shrink/forget-reduction", reductionRecordPath(host, volume));
  await host.files.remove("shrink/forget-beside-lvmd", reductionBesideLvmdPath(host, volume));
}
