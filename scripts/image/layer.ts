// What goes into one layer of an image, as a person would say it, turned into tar entries: parents before children, each once,
// in an order that depends on the names alone.
import { readdirSync, readlinkSync, statSync } from "node:fs";
import { dirname, join } from "node:path/posix";
import type { TarEntry } from "./tar.ts";

const DIRECTORY_MODE = 0o755;
const PROGRAM_MODE = 0o755;
const FILE_MODE = 0o644;

/**
 * `path` is absolute, in the image. A `file` and a `tree` are copied from this machine; a symlink inside a tree stays one, a `file`
 * that is one is followed. Without a mode, a file is 0755 when its owner may execute it and else 0644.
 */
export type LayerEntry =
  | { readonly kind: "file"; readonly path: string; readonly from: string; readonly mode?: number }
  | { readonly kind: "text"; readonly path: string; readonly text: string; readonly mode?: number }
  | { readonly kind: "tree"; readonly path: string; readonly from: string }
  | { readonly kind: "directory"; readonly path: string; readonly mode?: number }
  | { readonly kind: "symlink"; readonly path: string; readonly target: string };

export type Layer = readonly LayerEntry[];

/** A later entry of the same path wins. */
export function tarEntriesOf(layer: Layer): TarEntry[] {
  const entries = new Map<string, TarEntry>();
  for (const entry of layer.flatMap(expanded)) {
    for (const parent of parentsOf(entry.path))
      if (!entries.has(parent)) entries.set(parent, { type: "directory", path: parent, mode: DIRECTORY_MODE });
    entries.set(entry.path, entry);
  }
  return [...entries.values()].sort((a, b) => (a.path < b.path ? -1 : 1));
}

function expanded(entry: LayerEntry): TarEntry[] {
  const path = entry.path.replace(/^\/+|\/+$/g, "");
  switch (entry.kind) {
    case "file":
      return [{ type: "file", path, mode: entry.mode ?? modeOf(entry.from), content: { from: entry.from } }];
    case "text":
      return [{ type: "file", path, mode: entry.mode ?? FILE_MODE, content: { bytes: Buffer.from(entry.text) } }];
    case "directory":
      return [{ type: "directory", path, mode: entry.mode ?? DIRECTORY_MODE }];
    case "symlink":
      return [{ type: "symlink", path, target: entry.target }];
    case "tree":
      return treeEntries(path, entry.from);
  }
}

function treeEntries(path: string, from: string): TarEntry[] {
  return readdirSync(from, { withFileTypes: true }).flatMap((child): TarEntry[] => {
    const childPath = join(path, child.name);
    const childFrom = join(from, child.name);
    if (child.isDirectory())
      return [{ type: "directory", path: childPath, mode: DIRECTORY_MODE }, ...treeEntries(childPath, childFrom)];
    if (child.isSymbolicLink()) return [{ type: "symlink", path: childPath, target: readlinkSync(childFrom) }];
    if (child.isFile())
      return [{ type: "file", path: childPath, mode: modeOf(childFrom), content: { from: childFrom } }];
    throw new Error(`${childFrom} is no file, directory or symlink: it cannot be packed into an image`);
  });
}

function modeOf(from: string): number {
  return (statSync(from).mode & 0o100) === 0 ? FILE_MODE : PROGRAM_MODE;
}

function parentsOf(path: string): string[] {
  const parent = dirname(path);
  return parent === "." ? [] : [...parentsOf(parent), parent];
}
