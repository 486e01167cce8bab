// Volumes of LVM that carry our tags and that no object names any more. Pure: they are only reported, since what nobody names may be what
// somebody wants back.
import type { FilesystemLayout } from "../../api/filesystem-layout.ts";
import type { LogicalVolume } from "../../api/logical-volume.ts";
import type { LogicalVolume as ListedVolume } from "../../gen/topolvm/lvmd.ts";
import { taggedVolumeUID } from "../storage/lvm/find-volume.ts";

export function orphansAmong(
  listed: readonly ListedVolume[],
  objects: readonly LogicalVolume[],
  layouts: readonly FilesystemLayout[],
): ListedVolume[] {
  const named = new Set([...objects.flatMap(namesOf), ...layouts.flatMap(membersOf)]);
  return listed.filter(({ name, tags }) => taggedVolumeUID(tags) !== undefined && !named.has(name));
}

function namesOf({ metadata, spec, status }: LogicalVolume): string[] {
  return [metadata.uid, spec.volumeID, status?.volumeID].filter((name) => name !== undefined);
}

function membersOf({ spec }: FilesystemLayout): string[] {
  return (spec.members ?? []).flatMap(({ source }) => source.logicalVolume?.volumeID ?? []);
}
