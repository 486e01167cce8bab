// Whether the layout's trims are to become those that the policy-engine asks for. Pure.
import type { Filesystem } from "../../api/filesystem.ts";
import type { FilesystemLayout } from "../../api/filesystem-layout.ts";
import type { TrimRequest } from "../../api/trim.ts";
import { isRemoving } from "./layout-facts.ts";

export type TrimPlan = { readonly do: "keep" } | { readonly do: "copy"; readonly trim: TrimRequest | undefined };

/** Members of a span lie on other drivers' volumes, which nobody pays for by the block. */
const TRIMMED_BACKENDS: readonly string[] = ["loop", "lvm"];

export function decideTrim(layout: FilesystemLayout, filesystem: Filesystem): TrimPlan {
  const { backend = "", volumeMode } = layout.spec;
  // What a raw block volume holds, nobody here knows.
  if (isRemoving(layout) || volumeMode === "Block" || !TRIMMED_BACKENDS.includes(backend)) return { do: "keep" };
  const { trim } = filesystem.spec;
  return trim?.every === layout.spec.trim?.every ? { do: "keep" } : { do: "copy", trim };
}
