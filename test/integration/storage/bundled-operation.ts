// A program of one storage operation, bundled once, so that each case can start it as a process of its own that a fault ends.
import { mkdtempSync, rmSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { buildSync } from "esbuild";

export interface BundledOperation {
  /** For Node. */
  readonly program: string;
  remove(): void;
}

export function bundleOperation(source: URL): BundledOperation {
  const directory = mkdtempSync("/dev/shm/tidemark-storage-test-");
  const program = join(directory, "operation.cjs");
  const entryPoints = [fileURLToPath(source)];
  buildSync({ entryPoints, outfile: program, bundle: true, platform: "node", format: "cjs", logLevel: "error" });
  return { program, remove: () => rmSync(directory, { recursive: true }) };
}
