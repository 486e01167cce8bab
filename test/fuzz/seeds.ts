// Right inputs to begin with: what versions of Tidemark have left, and what is in the tree.
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

const VERSIONS = readdirSync("test/fixtures").filter((name) => /^v\d/.test(name));

/** The records that each version has left in a directory. */
export function fixtures(directory: string, suffix = ".json"): Buffer[] {
  return VERSIONS.flatMap((version) => {
    const path = join("test/fixtures", version, directory);
    return readdirSync(path)
      .filter((name) => name.endsWith(suffix))
      .map((name) => readFileSync(join(path, name)));
  });
}
