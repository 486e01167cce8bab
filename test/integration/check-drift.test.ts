// What `make check` says of generated files, in a copy of the tree: other tests read the tree meanwhile, so it must not be touched.
import { spawnSync } from "node:child_process";
import { appendFileSync, cpSync, lstatSync, mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { afterAll, beforeAll, expect, it } from "@jest/globals";

const SOURCES = [
  "src",
  "demo",
  "proto",
  "scripts",
  "kustomize/foundation/crds",
  "test/effect-points.json",
  "docs/reference/cel-conformance.md",
  "buf.yaml",
  "buf.gen.yaml",
];
const ROOT_FILES = ["package.json", "tsconfig.json"];

let tree: string;

beforeAll(() => {
  tree = mkdtempSync(join(tmpdir(), "tidemark-drift-"));
  for (const path of [...SOURCES, ...ROOT_FILES]) {
    mkdirSync(join(tree, dirname(path)), { recursive: true });
    cpSync(path, join(tree, path), { recursive: true });
  }
  symlinkSync(resolve("node_modules"), join(tree, "node_modules"));
});
afterAll(() => rmSync(tree, { recursive: true, force: true }));

/** A file that is written, replaced or taken away for a moment shows in its own or its directory's entry. */
function entriesOf(directory: string): string[] {
  return readdirSync(directory, { recursive: true, encoding: "utf8" })
    .filter((path) => !path.startsWith("node_modules/"))
    .concat(".")
    .sort()
    .map((path) => {
      const { ino, mtimeMs, ctimeMs } = lstatSync(join(directory, path));
      return `${path} inode ${ino} written ${mtimeMs} changed ${ctimeMs}`;
    });
}

it("names each file that is not what its source generates, or has no source, and writes nothing to the tree, not even for a moment", () => {
  const changed = [
    "docs/reference/cel-conformance.md",
    "kustomize/foundation/crds/tidemark.dev_filesystems.yaml",
    "test/effect-points.json",
  ];
  const stale = ["kustomize/foundation/crds/tidemark.dev_formers.yaml", "src/contracts/gen/tidemark/former.ts"];
  for (const path of [...changed, ...stale]) appendFileSync(join(tree, path), "# nobody generates this\n");
  const before = entriesOf(tree);
  const { status, stdout } = spawnSync("scripts/check-drift.sh", { cwd: tree, encoding: "utf8" });
  expect(status).toBe(1);
  for (const path of [...changed, ...stale]) expect(stdout).toContain(`--- ${path}\t`);
  expect(stdout.match(/^--- /gm)).toHaveLength(5);
  expect(entriesOf(tree)).toEqual(before);
});
