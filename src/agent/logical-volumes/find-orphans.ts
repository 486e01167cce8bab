// Volumes of LVM that carry our tags and that no object names any more, or that were left half made. Pure: they are only reported,
// since what nobody names may be what somebody wants back.
import type { FilesystemLayout } from "../../api/filesystem-layout.ts";
import type { LogicalVolume } from "../../api/logical-volume.ts";
import { GUARD_TAG } from "../../api/names.ts";
import type { LogicalVolume as ListedVolume } from "../../gen/topolvm/lvmd.ts";
import { UNMOUNTED_SHRINK_TAG } from "../storage/lvm/content-tags.ts";
import { taggedVolumeUID } from "../storage/lvm/find-logical-volume.ts";

export function orphansAmong(
  listed: readonly ListedVolume[],
  objects: readonly LogicalVolume[],
  layouts: readonly FilesystemLayout[],
): ListedVolume[] {
  const named = new Set([...objects.flatMap(namesOf), ...layouts.flatMap(membersOf)]);
  const shrinking = listed
    .filter(({ tags }) => tags.includes(UNMOUNTED_SHRINK_TAG))
    .map(({ name }) => `${GUARD_TAG}=${name}`);
  const guards = ({ tags }: ListedVolume): boolean => shrinking.some((tag) => tags.includes(tag));
  return listed.filter((one) => taggedVolumeUID(one.tags) !== undefined && !named.has(one.name) && !guards(one));
}

/** What was begun for one that was given up is no volume of it: nobody goes on with it. */
function namesOf({ metadata, spec, status }: LogicalVolume): string[] {
  const isGivenUp = status?.code !== undefined && status.volumeID === undefined;
  return [isGivenUp ? undefined : metadata.uid, spec.volumeID, status?.volumeID].filter((name) => name !== undefined);
}

function membersOf({ spec }: FilesystemLayout): string[] {
  return (spec.members ?? []).flatMap(({ source }) => source.logicalVolume?.volumeID ?? []);
}
