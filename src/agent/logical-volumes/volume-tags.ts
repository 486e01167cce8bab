// What LVM itself knows of whose a volume is: its tags, from which people and a new agent find its claim. Pure.
import { snapshotUIDOf, volumeUIDOf } from "../../api/identity.ts";
import type { LogicalVolume } from "../../api/logical-volume.ts";
import { RECORDS } from "../../api/names.ts";
import { COPY_TAG, FORMATTED_TAG, RAW_BLOCK_TAG } from "../storage/lvm/content-tags.ts";

const CLAIM_TAG = "tidemark.dev/claim=";

/**
 * The volume's or the snapshot's own UID first, the claim where that is known, what its content is, and of a copy that
 * it may hold data which is another's by its UUID. Throws TypeError on a name that is neither a volume handle nor a snapshot id.
 */
export function tagsOf({ metadata, spec }: LogicalVolume): string[] {
  const volumeUID = volumeUIDOf(metadata.name);
  const ownUID = volumeUID ?? snapshotUIDOf(metadata.name);
  if (ownUID === undefined)
    throw new TypeError(`LogicalVolume ${metadata.name} is named neither like a volume handle nor like a snapshot`);
  return [`${RECORDS.volumeUID}=${ownUID}`, ...claimTags(spec.claimRef), ...contentTags(spec, volumeUID !== undefined)];
}

/** A raw block volume is never looked into: its copies have no UUID of their own to get. */
function contentTags({ volumeMode, source }: LogicalVolume["spec"], isVolume: boolean): string[] {
  if (volumeMode === "Block") return [RAW_BLOCK_TAG];
  if (source === undefined) return [];
  return isVolume ? [FORMATTED_TAG, COPY_TAG] : [FORMATTED_TAG];
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
