// Refuses words in texts and comments (scripts/words/refused.ts): each with its file and line, and with the plain word to use instead. It
// reads the tree that it is started in: literals of src and demo, comments of both and of scripts, pages, and comments and descriptions of
// manifests.
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { refusalsIn } from "./words/refusals.ts";

const paths = [
  ...["src", "demo", "scripts"]
    .flatMap((folder) => filesBelow(folder, ".ts"))
    .filter((path) => !path.startsWith("src/contracts/gen/")),
  ...readdirSync(".").filter((path) => path.endsWith(".md")),
  ...filesBelow("docs", ".md"),
  ...["kustomize", "policies"].flatMap((folder) => filesBelow(folder, ".yaml")),
];
const refusals = paths.flatMap((path) => refusalsIn(path, readFileSync(path, "utf8")));
if (refusals.length > 0) {
  process.stderr.write(
    `${refusals.join("\n")}\nwords: ${refusals.length} to say more plainly (the list: scripts/words/refused.ts)\n`,
  );
  process.exitCode = 1;
}

function filesBelow(folder: string, extension: string): readonly string[] {
  if (!existsSync(folder)) return [];
  const paths = readdirSync(folder, { recursive: true, encoding: "utf8" });
  return paths
    .filter((path) => path.endsWith(extension))
    .map((path) => join(folder, path))
    .sort();
}
