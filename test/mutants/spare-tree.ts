// A copy of the work tree that may be broken: its files as they stand, committed or not, with node_modules as hard links. The bundle
// is built and Jest runs in there; the work tree is only read.
import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import {
  closeSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { basename, dirname, join } from "node:path";

export interface SpareTree {
  read(file: string): string;
  write(file: string, text: string): void;
  /** Throws where it cannot be built. */
  build(): void;
  /** Each test file by itself, in this order; one that hangs is ended, and is `hung`. */
  test(path: string): Promise<TestRun>;
  remove(): void;
}

/** `did-not-run`: Jest could not load the file, or took no test of it; nothing is shown by that. */
export type Verdict = "passed" | "failed" | "hung" | "did-not-run";

export interface TestRun {
  readonly verdict: Verdict;
  readonly seconds: number;
  /** The end of what Jest said. */
  readonly said: string;
}

const NODE_OPTIONS = "--experimental-vm-modules --disable-warning=ExperimentalWarning";
/** A suite that waits in vain ends by itself far sooner. */
const FAST_SUITE_LIMIT_MS = 10 * 60_000;
const SLOW_SUITE_LIMIT_MS = 60 * 60_000;
const SAID_CHARACTERS = 3000;

export function isSlow(path: string): boolean {
  return /^test\/(real|e2e)\//.test(path);
}

export function makeSpareTree(): SpareTree {
  const directory = mkdtempSync(join(tmpdir(), "tidemark-mutants-"));
  copyTree(directory);
  return {
    read: (file) => readFileSync(join(directory, file), "utf8"),
    write: (file, text) => writeFileSync(join(directory, file), text),
    build: () => {
      execFileSync(process.execPath, ["scripts/build.mjs"], { cwd: directory, stdio: ["ignore", "ignore", "pipe"] });
    },
    test: (path) => runTest(directory, path),
    remove: () => rmSync(directory, { recursive: true, force: true }),
  };
}

function copyTree(directory: string): void {
  const listed = execFileSync("git", ["ls-files", "-z", "--cached", "--others", "--exclude-standard"], {
    encoding: "utf8",
    maxBuffer: 1 << 26,
  });
  for (const path of listed.split("\0").filter((one) => one !== "" && existsSync(one))) {
    mkdirSync(join(directory, dirname(path)), { recursive: true });
    cpSync(path, join(directory, path), { verbatimSymlinks: true });
  }
  const modules = join(directory, "node_modules");
  try {
    execFileSync("cp", ["-al", "node_modules", modules], { stdio: "ignore" });
  } catch {
    // The directory for temporary files is on another filesystem.
    rmSync(modules, { recursive: true, force: true });
    execFileSync("cp", ["-a", "node_modules", modules]);
  }
  // What is written there in place would be written in the work tree's, too.
  rmSync(join(modules, ".cache"), { recursive: true, force: true });
}

async function runTest(directory: string, path: string): Promise<TestRun> {
  const report = join(directory, ".tidemark-report.json");
  const output = join(directory, ".tidemark-output.txt");
  rmSync(report, { force: true });
  const args = ["node_modules/.bin/jest", "--runInBand", "--cacheDirectory", join(directory, ".tidemark-jest")];
  const file = openSync(output, "w");
  const startedMs = performance.now();
  const child = spawn(process.execPath, [...args, "--json", `--outputFile=${report}`, "--runTestsByPath", path], {
    cwd: directory,
    env: { ...process.env, NODE_OPTIONS },
    stdio: ["ignore", "ignore", file],
    detached: true,
  });
  closeSync(file);
  const hung = await isHung(child, isSlow(path) ? SLOW_SUITE_LIMIT_MS : FAST_SUITE_LIMIT_MS);
  const seconds = Math.round((performance.now() - startedMs) / 100) / 10;
  const said = readFileSync(output, "utf8").slice(-SAID_CHARACTERS);
  return { verdict: hung ? "hung" : verdictOf(report, path), seconds, said };
}

/** Resolves when it has ended; true: it had to be killed, with all that it started. */
async function isHung(child: ChildProcess, limitMs: number): Promise<boolean> {
  let hung = false;
  const timer = setTimeout(() => {
    hung = true;
    if (child.pid !== undefined) process.kill(-child.pid, "SIGKILL");
  }, limitMs);
  await new Promise((resolve, reject) => child.once("exit", resolve).once("error", reject));
  clearTimeout(timer);
  return hung;
}

interface JestReport {
  readonly testResults: readonly {
    readonly name: string;
    readonly assertionResults: readonly { readonly status: string }[];
  }[];
}

/** A case that failed counts. A file that could not be loaded has no cases. */
function verdictOf(report: string, path: string): Verdict {
  if (!existsSync(report)) return "did-not-run";
  const { testResults } = JSON.parse(readFileSync(report, "utf8")) as JestReport;
  const suite = testResults.find(({ name }) => basename(name) === basename(path));
  const statuses = suite?.assertionResults.map(({ status }) => status) ?? [];
  if (statuses.includes("failed")) return "failed";
  return statuses.includes("passed") ? "passed" : "did-not-run";
}
