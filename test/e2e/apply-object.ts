// One object applied as a user applies it: by kubectl, from a file. A class goes when the suite does; all else is in its namespace, or the
// suite deletes it.
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { ClusterUnderTest } from "./cluster-under-test.ts";

const CLASSES: readonly unknown[] = ["StorageClass", "VolumeSnapshotClass"];

export async function applyObject(
  { kubectl, afterwards }: Pick<ClusterUnderTest, "kubectl"> & Partial<Pick<ClusterUnderTest, "afterwards">>,
  object: object,
): Promise<void> {
  const { kind, metadata } = object as { kind?: string; metadata?: { name: string } };
  if (kind !== undefined && metadata !== undefined && CLASSES.includes(kind))
    afterwards?.(() => kubectl("delete", kind, metadata.name, "--ignore-not-found"));
  const directory = mkdtempSync(join(tmpdir(), "tidemark-e2e-"));
  const path = join(directory, "object.json");
  writeFileSync(path, JSON.stringify(object));
  await kubectl("apply", "--server-side", "--filename", path);
  rmSync(directory, { recursive: true });
}
