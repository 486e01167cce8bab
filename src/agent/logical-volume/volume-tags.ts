// What LVM itself knows of whose a volume is: its tags, from which people and a new agent find its claim. Pure.
import { snapshotUIDOf, volumeUIDOf } from "../../api/identity.ts";
import type { LogicalVolume } from "../../api/logical-volume.ts";
import { RECORDS } from "../../api/names.ts";
import { COPY_TAG, FORMATTED_TAG } from "../storage/lvm/content-tags.ts";

const CLAIM_TAG = "tidemark.dev/claim=";

/**
 * The volume's or the snapshot's own UID first, the claim where that is known, and of a copy that it may hold data which is another's by
 * its UUID. Throws TypeError on a name that is neither a volume handle nor a snapshot id.
 */
export function tagsOf({ metadata, spec }: LogicalVolume): string[] {
  const volumeUID = volumeUIDOf(metadata.name);
  const ownUID = volumeUID ?? snapshotUIDOf(metadata.name);
  if (ownUID === undefined)
    throw new TypeError(`LogicalVolume ${metadata.name} is named neither like a volume handle nor like a snapshot`);
  const isCopy = volumeUID !== undefined && spec.source !== undefined;
  return [
    `${RECORDS.volumeUID}=${ownUID}`,
    ...claimTags(spec.claimRef),
    ...(spec.source === undefined ? [] : [FORMATTED_TAG]),
    ...(isCopy ? [COPY_TAG] : []),
  ];
}

function claimTags(claimRef: LogicalVolume["spec"]["claimRef"]): string[] {
  if (claimRef === undefined) return [];
  const { namespace = "", name } = claimRef;
  return [`${CLAIM_TAG}${withAllowedCharacters(`${namespace}/${name}`)}`];
}

/** lvm(8), "Tags". */
function withAllowedCharacters(text: string): string {
  return text.replaceAll(/[^A-Za-z0-9_+.\-/=!:&#]/g, "_");
}
