// Bundles every process into dist/tidemark.mjs, and the agent's threads next to it; the demo and its control plane, which are
// not in the image, into dist/demo. Each command is a chunk of its own, so that a process loads only what it runs. Skipped when nothing is
// newer. A dist/ is never written to once it is there: an image that is packed at the same time has all of its files from one build.
import { mkdirSync, readdirSync, statSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import { replaceDirectory } from "./replace-directory.mjs";

/** By directory: what stands there, by its source. */
const PROGRAMS = {
  dist: {
    tidemark: "src/cli/main.ts",
    "sampler-worker": "src/agent/sampling/sampler-worker.ts",
    "mount-reader": "src/agent/storage/in-threads/mount-reader-worker.ts",
    "review-worker": "src/policy-engine/admission/review-worker.ts",
  },
  "dist/demo": { demo: "demo/main.ts" },
};
const SOURCES = ["src", "demo", "scripts/build.mjs", "scripts/undici-client.mjs", "package-lock.json"];

/** For our own code. client-node, which is loaded for kubeconfig files only, has the whole of it. */
const smallUndici = {
  name: "small-undici",
  setup: ({ onResolve }) => {
    const path = fileURLToPath(new URL("undici-client.mjs", import.meta.url));
    onResolve({ filter: /^undici$/ }, ({ importer }) => (importer.includes("node_modules") ? undefined : { path }));
  },
};

const newest = (path) =>
  statSync(path).isDirectory()
    ? Math.max(...readdirSync(path).map((name) => newest(join(path, name))))
    : statSync(path).mtimeMs;
const outputs = Object.entries(PROGRAMS).flatMap(([directory, entries]) =>
  Object.keys(entries).map((name) => join(directory, `${name}.mjs`)),
);
const builtAt = Math.min(...outputs.map((path) => statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? 0));

if (builtAt < Math.max(...SOURCES.map(newest))) {
  const fresh = `.tidemark/dist-${process.pid}`;
  const bundles = await Promise.all(
    Object.entries(PROGRAMS).map(async ([directory, entryPoints]) => ({ directory, files: await bundle(entryPoints) })),
  );
  for (const { directory, files } of bundles) {
    const into = directory.replace("dist", fresh);
    mkdirSync(into, { recursive: true });
    for (const { path, contents } of files) writeFileSync(join(into, basename(path)), contents);
  }
  replaceDirectory("dist", fresh);
}

async function bundle(entryPoints) {
  const { outputFiles } = await build({
    entryPoints,
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
    plugins: [smallUndici],
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
  return outputFiles;
}
