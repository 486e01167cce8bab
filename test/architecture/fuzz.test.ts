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
  "src/agent/foreign-claims/find-claims.ts": "hands the text to mount-table.ts",
  "src/agent/node-storage/disk-utilization.ts": "numbers of the kernel; what is none makes no ratio",
  "src/agent/own-places.ts": "texts by zod; what cannot be understood counts as absent, whatever is thrown",
  "src/agent/storage/btrfs/exclusive-operation.ts": "one word of the kernel, compared with known ones",
  "src/agent/storage/block/grow.ts": "one number of the kernel, about this process",
  "src/agent/storage/loop/loop-device.ts": "names of losetup and the kernel, looked up and compared",
  "src/agent/storage/lvm/unmounted-shrink/check-filesystem.ts": "text of e2fsck for a message",
  "src/agent/storage/lvm/device-of-volume.ts": "one name of the kernel, compared",
  "src/agent/storage/block/probe-device.ts":
    "words of wipefs: any line is a signature, and no device with one is formatted",
  "src/agent/storage/span/settle-members.ts": "one digit of the kernel, compared",
  "src/kube/client/wire.ts": "answers of the API server, which everything believes; what is no JSON is a KubeError",
  "src/lvmd/lvm/lvm.ts": "text of LVM for a message",
  "src/policy-engine/cel/functions/pattern-size.ts": "patterns of policies: part of CEL, with properties of its own",
  "src/policy-engine/cel/problem.ts": "counts lines of an expression: part of CEL",
  "src/policy-engine/samples/agent-admission.ts":
    "one number of a token that the API server has reviewed; all else is 0",
  "src/policy-engine/gather/prometheus.ts": "answers by zod; what is another is a PrometheusError",
  "src/process/boot-id.ts": "one word of the kernel",
  "src/process/running-commands.ts": "names of processes from the kernel, compared",
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
