// One object applied as a user applies it: by kubectl, from a file.
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { ClusterUnderTest } from "./cluster-under-test.ts";

export async function applyObject({ kubectl }: Pick<ClusterUnderTest, "kubectl">, object: object): Promise<void> {
  const directory = mkdtempSync(join(tmpdir(), "tidemark-e2e-"));
  const path = join(directory, "object.json");
  writeFileSync(path, JSON.stringify(object));
  await kubectl("apply", "--server-side", "--filename", path);
  rmSync(directory, { recursive: true });
}
