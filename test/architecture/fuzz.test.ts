// Each file that reads what others write is fuzzed, or says here why it is not.
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { describe, expect, it } from "@jest/globals";
import { FUZZ_TARGETS } from "../fuzz/table.ts";

/** Of no cluster: what they read, tests and the demo write themselves. */
const APART = /^src\/(gen|cli)\//;
const READS =
  /JSON\.parse\(|from "yaml"|\.read(Big)?U?Int\d*(LE|BE)?\(|\.split\("\\n"\)|"\/proc\/|matchAll\(|readFileSync\(.*"utf8"\)\.(trim|split)/;

/** By file: why no inputs are made for it. */
const REASONS: Readonly<Record<string, string>> = {
  "src/agent/node-storage/node-storage-reporter.ts": "numbers of the kernel; what is none makes no ratio",
  "src/agent/own-places.ts": "texts by zod; what cannot be understood counts as absent, whatever is thrown",
  "src/agent/storage/block/resize-member.ts": "one number of the kernel, about this process",
  "src/agent/storage/loop/loop-storage.ts": "names of losetup and the kernel, looked up and compared",
  "src/agent/storage/lvm/logical-volume.ts": "one name of the kernel, compared",
  "src/agent/storage/block/probe-device.ts":
    "words of wipefs: any line is a signature, and no device with one is formatted",
  "src/agent/storage/span/release-members.ts": "one digit of the kernel, compared",
  "src/lvmd/lvm/lvm.ts": "text of LVM for a message",
  "src/policy-engine/cel/functions/patterns.ts": "patterns of policies: part of CEL, with properties of its own",
  "src/policy-engine/cel/errors.ts": "counts lines of an expression: part of CEL",
  "src/policy-engine/admission/review-worker.ts":
    "a text that another thread has written, from what policy-review.ts read",
  "src/policy-engine/policies/compile-rules.ts": "names in expressions that the parser has taken already",
  "src/policy-engine/samples/sample-listener.ts":
    "one number of a token that the API server has reviewed; all else is 0",
  "src/policy-engine/engine/own-limits.ts": "one number of the kernel, about this thread",
  "src/policy-engine/gather/prometheus/prometheus-server.ts": "answers by zod; what is another is a PrometheusError",
  "src/platform/process/clock.ts": "one word of the kernel",
  "src/platform/process/effects/command-port.ts": "names of processes from the kernel, compared",
};

const sources = readdirSync("src", { recursive: true, encoding: "utf8" })
  .filter((name) => name.endsWith(".ts"))
  .map((name) => `src/${name}`)
  .filter((path) => !APART.test(path));

describe("the table of fuzzed parsers", () => {
  const fuzzed = new Set(FUZZ_TARGETS.flatMap(({ parsers }) => parsers));

  it("has a row, or a reason, for each file that reads what others write", () => {
    const reading = sources.filter((path) => READS.test(readFileSync(path, "utf8")));
    expect(reading.filter((path) => !fuzzed.has(path) && REASONS[path] === undefined)).toEqual([]);
  });

  it("is in the fast run as a whole", () => {
    const targets = readdirSync("test/fuzz/targets").map((name) => name.replace(/\.ts$/, ".test.ts"));
    expect(readdirSync("test/integration/fuzz").sort()).toEqual(targets.sort());
  });

  it("is in the long run as a whole", () => {
    const suites = readdirSync("test/soak").filter((name) => /^fuzz-.*\.test\.ts$/.test(name));
    const imported = suites.flatMap((name) => [
      ...readFileSync(`test/soak/${name}`, "utf8").matchAll(/fuzz\/targets\/(\S+)"/g),
    ]);
    expect(imported.map(([, file]) => file).sort()).toEqual(readdirSync("test/fuzz/targets").sort());
  });

  it("names files that are there, and each target once", () => {
    expect([...fuzzed, ...Object.keys(REASONS)].filter((path) => !existsSync(path))).toEqual([]);
    expect(Object.keys(REASONS).filter((path) => fuzzed.has(path))).toEqual([]);
    expect(new Set(FUZZ_TARGETS.map(({ name }) => name)).size).toBe(FUZZ_TARGETS.length);
  });
});
