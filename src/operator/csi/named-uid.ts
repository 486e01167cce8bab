// The UUID of what CSI names: the sidecars put one into the name, and any other name always gives the same, so that a repeated call meets
// the same object. Pure.
import { createHash } from "node:crypto";
import { isUUID, uuidOfHex } from "../../api/identity.ts";
import { invalidArgument, type Refusal } from "../../csi/refusal.ts";

const NAME_LIMIT_CHARACTERS = 128;

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
  if (name.length <= NAME_LIMIT_CHARACTERS) return undefined;
  return invalidArgument(
    `the ${what}'s name has ${name.length} characters, over the limit of ${NAME_LIMIT_CHARACTERS}`,
  );
}
