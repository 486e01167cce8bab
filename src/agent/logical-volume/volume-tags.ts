// What LVM itself knows of whose a volume is: its tags, from which people and a new agent find its claim. Pure.
import { volumeUIDOf } from "../../api/identity.ts";
import type { LogicalVolume } from "../../api/logical-volume.ts";
import { RECORDS } from "../../api/names.ts";

/** Pods have the device itself: whatever it carries, or does not, it is never formatted. */
export const RAW_BLOCK_TAG = `${RECORDS.volumeMode}=Block`;

const CLAIM_TAG = "tidemark.dev/claim=";

/** The volume's own UID first, and its claim where that is known. Throws TypeError on a name that is no volume handle. */
export function tagsOf({ metadata, spec }: LogicalVolume): string[] {
  const volumeUID = volumeUIDOf(metadata.name);
  if (volumeUID === undefined) throw new TypeError(`LogicalVolume ${metadata.name} is not named like a volume handle`);
  const own = [`${RECORDS.volumeUID}=${volumeUID}`, ...(spec.volumeMode === "Block" ? [RAW_BLOCK_TAG] : [])];
  if (spec.claimRef === undefined) return own;
  const { namespace = "", name } = spec.claimRef;
  return [...own, `${CLAIM_TAG}${withAllowedCharacters(`${namespace}/${name}`)}`];
}

/** lvm(8), "Tags". */
function withAllowedCharacters(text: string): string {
  return text.replaceAll(/[^A-Za-z0-9_+.\-/=!:&#]/g, "_");
}
