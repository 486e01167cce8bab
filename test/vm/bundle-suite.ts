// A suite of test/vm bundled on the host, once for each boot: the machine's jest loads one file and transforms nothing, where it would
// transform a few hundred on a cold cache and a slow processor.
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { join, relative } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { build, type Plugin } from "esbuild";

const REPOSITORY = fileURLToPath(new URL("../../", import.meta.url));
/** Below the work tree, which is all of the host that the machine sees as it is. */
const DIRECTORY = join(REPOSITORY, ".tidemark", "vm-suites");

export interface BundledSuite {
  /** Of jest, in the machine. */
  readonly arguments: readonly string[];
  remove(): void;
}

/** `suite`: below test/vm, without its ending. */
export async function bundleSuite(suite: string): Promise<BundledSuite> {
  mkdirSync(DIRECTORY, { recursive: true });
  const directory = mkdtempSync(join(DIRECTORY, "suite-"));
  await build({
    entryPoints: [join(REPOSITORY, "test", "vm", `${suite}.vm.ts`)],
    outfile: join(directory, "suite.vm.cjs"),
    bundle: true,
    platform: "node",
    target: "node20.19",
    format: "cjs",
    // A failure names the line of the source.
    sourcemap: "linked",
    external: ["@jest/globals", "esbuild"],
    plugins: [KEEPS_ITS_PLACE],
    logLevel: "error",
  });
  const config = {
    rootDir: REPOSITORY,
    roots: [directory],
    testMatch: ["**/*.vm.cjs"],
    transform: {},
    testEnvironment: "node",
    testTimeout: 300_000,
  };
  return {
    arguments: ["--config", JSON.stringify(config)],
    remove: () => rmSync(directory, { recursive: true, force: true }),
  };
}

/** What a module finds beside itself stays where its source is. */
const KEEPS_ITS_PLACE: Plugin = {
  name: "keeps-its-place",
  setup: ({ onLoad }) =>
    onLoad({ filter: /\.ts$/ }, ({ path }) =>
      relative(REPOSITORY, path).startsWith("node_modules")
        ? undefined
        : {
            contents: readFileSync(path, "utf8").replaceAll(
              "import.meta.url",
              JSON.stringify(pathToFileURL(path).href),
            ),
            loader: "ts",
          },
    ),
};
