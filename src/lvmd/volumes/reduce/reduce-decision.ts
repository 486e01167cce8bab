// Whether a volume is made smaller, and to what. Pure: facts in, a decision out, or a Refusal that is thrown.
import { invalidArgument, Refusal } from "../../../contracts/csi/refusal.ts";
import { roundUp } from "../../classes/class-state.ts";
import type { ReportedVolume } from "../../lvm/report.ts";
import type { Signature } from "./read-signature.ts";
import type { ReduceRecord, ReduceRequest } from "./reductions.ts";

/** It becomes a part of a file's name. */
const TOKEN = /^[A-Za-z0-9._-]{1,128}$/;

export function refuseToken(token: string): void {
  if (!TOKEN.test(token)) throw invalidArgument("the token is not 1 to 128 letters, digits and . _ -");
}

export function refuseReduceRequest({ volumeUUID, fromBytes, toBytes, token }: ReduceRequest): void {
  refuseToken(token);
  if (volumeUUID === "") throw invalidArgument("the volume's UUID is missing");
  if (!(toBytes > 0)) throw invalidArgument(`a volume of ${toBytes} bytes cannot be`);
  if (toBytes > fromBytes) throw invalidArgument(`from ${fromBytes} to ${toBytes} bytes is not a reduction`);
}

/** A token stands for one reduction. */
export function refuseOtherUse(record: ReduceRecord, request: ReduceRequest): void {
  const same =
    record.volumeUUID === request.volumeUUID &&
    record.fromBytes === request.fromBytes &&
    record.toBytes === request.toBytes;
  if (same || record.end.state === "Burnt") return;
  throw invalidArgument(
    `the token ${request.token} stands for another reduction: of ${record.volumeUUID} from ${record.fromBytes} ` +
      `to ${record.toBytes} bytes`,
  );
}

/** The size in whole extents. Throws a Refusal, ABORTED, where this volume is not what the request speaks of. */
export function targetOf(request: ReduceRequest, sizeBytes: number, grain: number): number {
  if (sizeBytes !== request.fromBytes)
    throw new Refusal("ABORTED", `the volume has ${sizeBytes} bytes, not the ${request.fromBytes} that it was to have`);
  return Math.min(roundUp(request.toBytes, grain), sizeBytes);
}

/**
 * lvs(8): the first character of lv_attr. What is written to the origin of thick snapshots is copied into them, and of such a snapshot LVM
 * would cut what it keeps for changes.
 */
export function refuseKind({ attr }: Pick<ReportedVolume, "attr">): void {
  if (!/^[oOsS]/.test(attr)) return;
  throw new Refusal("FAILED_PRECONDITION", "the volume is not made smaller: it has thick snapshots, or is one");
}

/** Why the volume must not end at `toBytes`: a value, since a stop is answered before it while the end is cleared. */
export function refusalOfCut(signature: Signature, toBytes: number): Refusal | undefined {
  if (signature.kind === "Unknown")
    return new Refusal("FAILED_PRECONDITION", `the volume is not made smaller: there is ${signature.what}`);
  if (signature.endBytes <= toBytes) return undefined;
  return new Refusal(
    "FAILED_PRECONDITION",
    `the volume is not made smaller: its ${signature.type} ends at ${signature.endBytes} bytes, ` +
      `${signature.endBytes - toBytes} beyond ${toBytes}`,
  );
}

/** What has become of a reduction of which only the begin is known. "Open": it was not carried out, and still may be. */
export function outcomeOf(
  sizeBytes: number | undefined,
  record: Pick<ReduceRecord, "fromBytes">,
  targetBytes: number,
): "Reduced" | "Open" | "Gone" {
  if (sizeBytes === undefined) return "Gone";
  if (sizeBytes === targetBytes) return "Reduced";
  // Neither: another program has changed it since. Smaller than it was: something was cut off.
  return sizeBytes < (record.fromBytes ?? 0) ? "Reduced" : "Open";
}
