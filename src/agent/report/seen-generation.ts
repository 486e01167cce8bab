// Whether a status says nothing that was not said before, save that a later generation of the layout has been seen. Pure. That is told
// a moment later, and most often comes with something that is new: an extend changes its layout three times.
import type { FilesystemLayoutStatus } from "../../api/filesystem-layout.ts";
import { shows } from "../../kube/client/apply-on-change.ts";

export function saysOnlyGeneration(told: FilesystemLayoutStatus | undefined, wanted: FilesystemLayoutStatus): boolean {
  if (told === undefined || told.observedGeneration === wanted.observedGeneration) return false;
  const [before, now] = [withoutGeneration(told), withoutGeneration(wanted)];
  return shows(before, now) && shows(now, before);
}

function withoutGeneration({ observedGeneration: _, conditions, ...status }: FilesystemLayoutStatus): object {
  return { ...status, conditions: conditions?.map(({ observedGeneration: _seen, ...condition }) => condition) };
}
