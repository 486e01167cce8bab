// Carries the trims that the policy-engine asks for into the layout, which is what a node acts on.
import type { Filesystem } from "../../api/filesystem.ts";
import type { FilesystemLayout } from "../../api/filesystem-layout.ts";
import { decideTrim } from "./decide-trim.ts";
import type { LayoutWriter } from "./layout-writer.ts";

/** Returns the layout as it is then, undefined where it is gone. Idempotent; both may come from a cache. Throws KubeError. */
export async function carryTrim(
  layouts: LayoutWriter,
  layout: FilesystemLayout,
  filesystem: Filesystem,
): Promise<FilesystemLayout | undefined> {
  return layouts.update("trim/carry-to-layout", layout, (current) => {
    const plan = decideTrim(current, filesystem);
    return plan.do === "copy" ? { trim: plan.trim } : undefined;
  });
}
