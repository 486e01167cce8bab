// Whether the size that the policy-engine wants becomes the layout's target. Pure. The newest decision wins, whoever made
// it, and nothing that a deposed leader writes is carried on.
import type { Filesystem, SizeTarget } from "../../api/filesystem.ts";
import type { FilesystemLayout } from "../../api/filesystem-layout.ts";
import { highestEpoch, isRemoving } from "./layout-facts.ts";

export type TargetPlan =
  | { readonly do: "keep" }
  | { readonly do: "copy"; readonly target: SizeTarget }
  /** The writer has been deposed; the message is for the Filesystem's condition. */
  | { readonly do: "refuse"; readonly message: string };

export function decideTarget(layout: FilesystemLayout, filesystem: Filesystem): TargetPlan {
  const wanted = filesystem.spec.target;
  if (wanted === undefined || isRemoving(layout) || !isNewer(wanted.decidedAt, layout)) return { do: "keep" };
  const seen = highestEpoch(layout);
  if (wanted.epoch < seen)
    return {
      do: "refuse",
      message:
        `the target of ${wanted.size}, decided at ${wanted.decidedAt}, carries epoch ${wanted.epoch}, but epoch ${seen} has been seen: ` +
        "a deposed leader wrote it, and it is not carried out; the present leader's next target replaces it",
    };
  const { size, from, epoch, decidedAt } = wanted;
  return { do: "copy", target: { size, from, epoch, decidedAt } };
}

/** A time that cannot be read is newer than nothing. */
function isNewer(decidedAt: string, { spec, status }: FilesystemLayout): boolean {
  const known = [spec.target?.decidedAt, status?.operation?.decidedAt, status?.lastOperation?.decidedAt];
  return known.every((other) => other === undefined || Date.parse(decidedAt) > Date.parse(other));
}
