// Whether a volume is made smaller, and to what. Pure: facts in, a decision out.
import { invalidArgument, Refusal } from "../../csi/refusal.ts";
import { roundUp } from "../classes/room.ts";
import type { ReportedVolume } from "../lvm/report.ts";
import type { Signature } from "./read-signature.ts";
import type { ReduceRecord, ReduceRequest } from "./reduce-tokens.ts";

/** It becomes a part of a file's name. */
const TOKEN = /^[A-Za-z0-9._-]{1,128}$/;

export function refuseToken(token: string): Refusal | undefined {
  return TOKEN.test(token) ? undefined : invalidArgument("the token is not 1 to 128 letters, digits and . _ -");
}

export function refuseReduceRequest({ volumeUUID, fromBytes, toBytes, token }: ReduceRequest): Refusal | undefined {
  const wrongToken = refuseToken(token);
  if (wrongToken !== undefined) return wrongToken;
  if (volumeUUID === "") return invalidArgument("the volume's UUID is missing");
  if (!(toBytes > 0)) return invalidArgument(`a volume of ${toBytes} bytes cannot be`);
  if (toBytes > fromBytes) return invalidArgument(`from ${fromBytes} to ${toBytes} bytes is no reduction`);
  return undefined;
}

/** A token stands for one reduction. */
export function refuseOtherUse(record: ReduceRecord, request: ReduceRequest): Refusal | undefined {
  const same =
    record.volumeUUID === request.volumeUUID &&
    record.fromBytes === request.fromBytes &&
    record.toBytes === request.toBytes;
  if (same || record.end.state === "Burnt") return undefined;
  return invalidArgument(
    `the token ${request.token} stands for another reduction: of ${record.volumeUUID} from ${record.fromBytes} ` +
      `to ${record.toBytes} bytes`,
  );
}

/** The size in whole extents, or why this volume is not what the request speaks of. */
export function targetOf(request: ReduceRequest, sizeBytes: number, grain: number): number | Refusal {
  if (sizeBytes !== request.fromBytes)
    return new Refusal(
      "ABORTED",
      `the volume has ${sizeBytes} bytes, not the ${request.fromBytes} that it was to have`,
    );
  return Math.min(roundUp(request.toBytes, grain), sizeBytes);
}

/**
 * lvs(8): the first character of lv_attr. What is written to the origin of thick snapshots is copied into them, and of such a snapshot LVM
 * would cut what it keeps for changes.
 */
export function refuseKind({ attr }: Pick<ReportedVolume, "attr">): Refusal | undefined {
  if (!/^[oOsS]/.test(attr)) return undefined;
  return new Refusal("FAILED_PRECONDITION", "the volume is not made smaller: it has thick snapshots, or is one");
}

/** Why the volume must not end at `toBytes`. */
export function refuseCut(signature: Signature, toBytes: number): Refusal | undefined {
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
  // Neither: somebody else has changed it since. Smaller than it was: something was cut off.
  return sizeBytes < (record.fromBytes ?? 0) ? "Reduced" : "Open";
}
