import { readdirSync, readFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { describe, expect, it } from "@jest/globals";

const LINES_LIMIT = 300;
const MAIN_LINES_LIMIT = 60;
const VAGUE_NAMES = /^(utils?|common|helpers?|shared|misc|types|constants)$/;

function filesBelow(directory: string): string[] {
  return readdirSync(directory, { withFileTypes: true }).flatMap((entry) => {
    const path = join(directory, entry.name);
    return entry.isDirectory() ? filesBelow(path) : [path];
  });
}

const sources = [...filesBelow("src"), ...filesBelow("demo")].filter(
  (path) => path.endsWith(".ts") && !path.startsWith("src/contracts/gen/"),
);

function offenders(offends: (text: string, path: string) => boolean): string[] {
  return sources.filter((path) => offends(readFileSync(path, "utf8"), path));
}

function codeLines(text: string): number {
  return text.split("\n").filter((line) => !/^\s*($|\/\/|\/\*|\*)/.test(line)).length;
}

describe("the source tree", () => {
  it("says at the top of each file which concept it is", () => {
    expect(offenders((text) => !text.startsWith("//") && !text.startsWith("#!"))).toEqual([]);
  });

  it(`has no file over ${LINES_LIMIT} lines, blank lines and comments not counted`, () => {
    expect(offenders((text) => codeLines(text) > LINES_LIMIT)).toEqual([]);
  });

  it(`says in a main.ts of under ${MAIN_LINES_LIMIT} lines how its process begins and ends, and wires its parts elsewhere`, () => {
    const mains = (path: string): boolean => basename(path) === "main.ts";
    expect(sources.filter(mains).length).toBeGreaterThan(5);
    expect(offenders((text, path) => mains(path) && text.split("\n").length > MAIN_LINES_LIMIT)).toEqual([]);
  });

  it("calls files and folders what they are, in kebab case", () => {
    const names = new Set(sources.flatMap((path) => [basename(path, ".ts"), ...dirname(path).split("/")]));
    expect([...names].filter((name) => VAGUE_NAMES.test(name) || !/^[a-z0-9-]+$/.test(name))).toEqual([]);
  });

  it("has its back-offs in one table, each with its reason", () => {
    const table = "src/platform/process/async/back-off.ts";
    expect(offenders((text, path) => path !== table && /\b(baseMs|capMs): *[0-9]/.test(text))).toEqual([]);
  });

  it("leaves nothing for later without saying where it is tracked", () => {
    expect(offenders((text) => /\b(TODO|FIXME|XXX|HACK)\b/.test(text))).toEqual([]);
  });

  it("reads the clock in decisions never, and the environment in config.ts only", () => {
    const decisions = (path: string) =>
      /^src\/(policy-engine\/(policies|facts|sizing|decide|cel)|(operator|agent|extender)\/decide)\//.test(path);
    expect(
      offenders((text, path) => decisions(path) && /Date\.now|performance\.now|new Date\(\)|Math\.random/.test(text)),
    ).toEqual([]);
    expect(offenders((text, path) => !path.endsWith("config.ts") && /process\.env\b/.test(text))).toEqual([]);
  });
});

describe("the tests", () => {
  it("get their API server through one function, so that all of them run on a real one, too", () => {
    const apart = [
      "test/harness/api-under-test.ts",
      // What the embedded one alone promises: loopback, and how it closes.
      "test/contract/refusals.test.ts",
    ];
    const starts = (path: string): boolean => readFileSync(path, "utf8").includes("demo/control-plane/http/server.ts");
    const tests = filesBelow("test").filter(
      (path) => path.endsWith(".ts") && path !== "test/architecture/tidy.test.ts",
    );
    expect(tests.filter((path) => starts(path) && !apart.includes(path))).toEqual([]);
  });
});

describe("the list of effect points", () => {
  const listed = JSON.parse(readFileSync("test/effect-points.json", "utf8")) as string[];

  it("names each side effect as operation/step", () => {
    expect(listed.filter((point) => !/^[a-z0-9-]+\/[a-z0-9-]+$/.test(point))).toEqual([]);
    expect(listed.length).toBeGreaterThan(10);
  });
});
