// What LVM itself knows of whose a volume is: its tags, from which people and a new agent find its claim. Pure.
import { volumeUIDOf } from "../../api/identity.ts";
import type { LogicalVolume } from "../../api/logical-volume.ts";
import { RECORDS } from "../../api/names.ts";

const CLAIM_TAG = "tidemark.dev/claim=";

/** The volume's own UID first, and its claim where that is known. Throws TypeError on a name that is no volume handle. */
export function tagsOf({ metadata, spec }: LogicalVolume): string[] {
  const volumeUID = volumeUIDOf(metadata.name);
  if (volumeUID === undefined) throw new TypeError(`LogicalVolume ${metadata.name} is not named like a volume handle`);
  const owner = `${RECORDS.volumeUID}=${volumeUID}`;
  if (spec.claimRef === undefined) return [owner];
  const { namespace = "", name } = spec.claimRef;
  return [owner, `${CLAIM_TAG}${withAllowedCharacters(`${namespace}/${name}`)}`];
}

/** lvm(8), "Tags". */
function withAllowedCharacters(text: string): string {
  return text.replaceAll(/[^A-Za-z0-9_+.\-/=!:&#]/g, "_");
}
