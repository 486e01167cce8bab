// The contract and integration suites on a real kube-apiserver, each file on one of its own: what differs there is a fault of the embedded
// control plane, of Tidemark, or of a test that relied on what nobody promised. In `make soak` alone.
import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, readFileSync, rmSync } from "node:fs";
import { relative } from "node:path";
import { expect, it } from "@jest/globals";
import { describeReal, STACK_PARTS } from "../harness/real-parts.ts";
import { noteFigures } from "./figures.ts";

const API_UNDER_TEST = "test/harness/api-under-test.ts";
const FOLDERS = /^test\/(contract|integration)\//;
const JEST = "node_modules/jest/bin/jest.js";
const OUTPUT = ".tidemark/real-api";
const WORKERS = 2;
const LIMIT_MS = 5_400_000;
/** As of now; fewer would mean that some are not run. */
const FILES_MIN = 73;
const TESTS_MIN = 930;
/** By `itEmbedded`, each with its reason there. One more is a decision, and not an accident. */
const SKIPPED = [
  "ends by itself after timeoutSeconds, with a bookmark for those who want them",
  "pages of a moment that is forgotten are answered with 410 Expired",
];

interface Report {
  readonly numPassedTests: number;
  readonly testResults: readonly {
    readonly name: string;
    readonly message: string;
    readonly status: string;
    readonly assertionResults: readonly { readonly fullName: string; readonly status: string }[];
  }[];
}

describeReal("a real kube-apiserver", [...STACK_PARTS, "lvm", "cluster"], () => {
  it(
    "serves the contract and integration suites as the embedded control plane does",
    async () => {
      const files = filesOnAnApi();
      expect(files.length).toBeGreaterThanOrEqual(FILES_MIN);
      const { numPassedTests, testResults } = await run(files);
      const failed = testResults.filter(({ status }) => status === "failed");
      const skipped = testResults.flatMap(({ assertionResults }) =>
        assertionResults.filter(({ status }) => status === "pending").map(({ fullName }) => fullName),
      );
      noteFigures("real-api", { files: files.length, passed: numPassedTests, skipped: skipped.length });
      console.info(`${files.length} files: ${numPassedTests} passed, ${skipped.length} skipped`);
      expect(failed.map(({ name, message }) => `${relative(".", name)}\n${message}`).join("\n")).toBe("");
      expect(testResults.length).toBe(files.length);
      expect(skipped.sort()).toEqual(SKIPPED);
      expect(numPassedTests).toBeGreaterThanOrEqual(TESTS_MIN);
    },
    LIMIT_MS,
  );
});

/** Found by what they import, so that a new one is among them. */
function filesOnAnApi(): string[] {
  const args = [JEST, "--listTests", "--json", "--findRelatedTests", API_UNDER_TEST];
  const found = JSON.parse(execFileSync(process.execPath, args, { encoding: "utf8" })) as string[];
  return found
    .map((path) => relative(".", path))
    .filter((path) => FOLDERS.test(path))
    .sort();
}

async function run(files: readonly string[]): Promise<Report> {
  mkdirSync(OUTPUT, { recursive: true });
  const report = `${OUTPUT}/report.json`;
  rmSync(report, { force: true });
  const args = [`--maxWorkers=${WORKERS}`, "--json", "--outputFile", report, "--runTestsByPath", ...files];
  // What it says on stderr has the reason of each test that is skipped. The report goes to its file; jest repeats it on stdout.
  const jest = spawn(process.execPath, [JEST, ...args], {
    env: { ...process.env, TIDEMARK_REAL_API: "true" },
    stdio: ["ignore", "ignore", "inherit"],
  });
  await once(jest, "exit");
  return JSON.parse(readFileSync(report, "utf8")) as Report;
}
