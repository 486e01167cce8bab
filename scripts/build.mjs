// Bundles every process into dist/tidemark.mjs, and the agent's sampling thread beside it; each command is a chunk of its own, so
// that a process loads what it runs and no more. Skipped when nothing is newer. A dist/ is never written to once it is there: an image that is
// packed meanwhile has all of its files from one build.
import { mkdirSync, readdirSync, statSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { build } from "esbuild";
import { replaceDirectory } from "./replace-directory.mjs";

const OUTPUTS = ["dist/tidemark.mjs", "dist/sampler-worker.mjs"];
const newest = (path) =>
  statSync(path).isDirectory()
    ? Math.max(...readdirSync(path).map((name) => newest(join(path, name))))
    : statSync(path).mtimeMs;
const builtAt = Math.min(...OUTPUTS.map((path) => statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? 0));

if (builtAt < Math.max(newest("src"), newest("scripts/build.mjs"), newest("package-lock.json"))) {
  const { outputFiles } = await build({
    entryPoints: { tidemark: "src/cli/main.ts", "sampler-worker": "src/agent/sampler-worker.ts" },
    outdir: "dist",
    outExtension: { ".js": ".mjs" },
    bundle: true,
    splitting: true,
    chunkNames: "chunk-[hash]",
    write: false,
    platform: "node",
    target: "node20.19",
    // A package that has both comes as an ES module: of a CommonJS one, import() has no names here.
    mainFields: ["module", "main"],
    format: "esm",
    sourcemap: "linked",
    minifySyntax: true,
    minifyWhitespace: true,
    // CommonJS packages inside an ES module bundle still call require for Node's builtins.
    banner: {
      js: "import { createRequire as bundleRequire } from 'node:module'; const require = bundleRequire(import.meta.url);",
    },
    logLevel: "warning",
  });
  const directory = `.tidemark/dist-${process.pid}`;
  mkdirSync(directory, { recursive: true });
  for (const { path, contents } of outputFiles) writeFileSync(join(directory, basename(path)), contents);
  replaceDirectory("dist", directory);
}
