// The UUID of what CSI names: the sidecars put one into the name, and any other name always gives the same, so that a repeated call meets
// the same object. Pure.
import { createHash } from "node:crypto";
import { isUUID, uuidOfHex } from "../../api/identity.ts";
import { invalidArgument, type Refusal } from "../../csi/refusal.ts";

const NAME_LIMIT_BYTES = 128;

/** `isCarried`: it is the one in the name, behind the sidecar's prefix. */
export interface NamedUID {
  readonly uid: string;
  readonly isCarried: boolean;
}

/** `seed`: of one that is not carried; it keeps a volume and a snapshot of one name apart. */
export function uidOfName(prefix: string, name: string, seed: string): NamedUID {
  const carried = name.startsWith(prefix) ? name.slice(prefix.length) : "";
  if (isUUID(carried)) return { uid: carried, isCarried: true };
  return { uid: uuidOfHex(createHash("sha256").update(seed).digest("hex")), isCarried: false };
}

export function refusalOfName(what: "volume" | "snapshot", name: string): Refusal | undefined {
  if (name === "") return invalidArgument(`the ${what} has no name`);
  const bytes = Buffer.byteLength(name);
  if (bytes > NAME_LIMIT_BYTES)
    return invalidArgument(`the ${what}'s name has ${bytes} bytes, over the limit of ${NAME_LIMIT_BYTES}`);
  if ([...name].some(isForbidden)) return invalidArgument(`the ${what}'s name has control characters`);
  return undefined;
}

/** By the specification of CSI, in CreateVolumeRequest.name: control characters but tab, line feed and carriage return. */
function isForbidden(character: string): boolean {
  const code = character.charCodeAt(0);
  return (code < 0x20 && !"\t\n\r".includes(character)) || (code >= 0x7f && code <= 0x9f);
}
