// `tidemark demo` as a newcomer runs it, whole: what it does is in its summary, and nothing of it stays on the machine. How fast
// it was is for people to look at; it decides nothing here.
import { type ChildProcess, spawn } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "@jest/globals";
import { loopDevicesUnder, mountsUnder } from "../../src/demo/mount-table.ts";
import type { DemoSummary } from "../../src/demo/summary.ts";
import { BUNDLE_PATH } from "../harness/bundle-process.ts";
import { describeReal, STACK_PARTS } from "../harness/real-parts.ts";
import { waitFor } from "../harness/wait-for.ts";

const LIMIT_MS = 600_000;

let directory: string;
let children: ChildProcess[];
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "tmd-"));
  children = [];
});
afterEach(() => {
  for (const child of children) child.kill("SIGKILL");
  rmSync(directory, { recursive: true });
});

interface Demo {
  readonly child: ChildProcess;
  /** Its exit code, and what it has printed on stdout. */
  readonly ended: Promise<readonly [number | null, string]>;
}

function startDemo(...flags: string[]): Demo {
  const picture = ["--picture", join(directory, "picture.svg")];
  const args = [BUNDLE_PATH, "demo", "--json", "--directory", join(directory, "runs"), ...picture, ...flags];
  const child = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "ignore"] });
  children.push(child);
  let printed = "";
  child.stdout.on("data", (chunk: Buffer) => {
    printed += chunk.toString();
  });
  return { child, ended: new Promise((resolve) => child.once("close", (code) => resolve([code, printed]))) };
}

async function summaryOf(demo: Demo): Promise<DemoSummary> {
  const [code, printed] = await demo.ended;
  expect(code).toBe(0);
  return JSON.parse(printed) as DemoSummary;
}

const mounted = () =>
  waitFor("a filesystem of the run to be mounted", () => (mountsUnder(directory).length > 1 ? true : undefined), {
    limitMs: LIMIT_MS / 4,
  });
const left = (): string[] => [
  ...mountsUnder(directory),
  ...loopDevicesUnder(directory),
  ...readdirSync(join(directory, "runs")),
];

describeReal("the demo on a real filesystem", [...STACK_PARTS], () => {
  it(
    "grows and shrinks it under a writer that loses nothing, draws it, and leaves nothing behind",
    async () => {
      const summary = await summaryOf(startDemo());
      expect(summary).toMatchObject({ storage: "real", fsType: "btrfs", corruptFiles: 0, writerErrors: 0 });
      expect(summary.extends).toBeGreaterThanOrEqual(3);
      expect(summary.shrinks).toBeGreaterThanOrEqual(1);
      expect(summary.writtenBytes).toBeGreaterThan(500_000_000);
      expect(summary.filesVerified).toBeGreaterThan(0);
      expect(summary.hostBytesEnd).toBeLessThan(summary.hostBytesMax);
      expect(readFileSync(join(directory, "picture.svg"), "utf8")).toMatch(/^<svg[^]*<\/svg>\s*$/);
      expect(left()).toEqual([]);
    },
    LIMIT_MS,
  );

  it(
    "leaves nothing behind after Ctrl-C",
    async () => {
      const demo = startDemo();
      await mounted();
      demo.child.kill("SIGINT");
      expect((await demo.ended)[0]).toBe(130);
      expect(left()).toEqual([]);
    },
    LIMIT_MS,
  );

  it(
    "removes at its next start what kill -9 has left behind",
    async () => {
      const killed = startDemo();
      await mounted();
      killed.child.kill("SIGKILL");
      await killed.ended;
      expect(left()).not.toEqual([]);
      const next = startDemo();
      await mounted();
      next.child.kill("SIGINT");
      await next.ended;
      expect(left()).toEqual([]);
    },
    LIMIT_MS,
  );
});

describe("the demo on a simulated disk", () => {
  it(
    "says so, and does the same",
    async () => {
      const summary = await summaryOf(startDemo("--simulated"));
      expect(summary).toMatchObject({ storage: "simulated", corruptFiles: 0, writerErrors: 0 });
      expect(summary.extends).toBeGreaterThanOrEqual(3);
      expect(summary.shrinks).toBeGreaterThanOrEqual(1);
      expect(left()).toEqual([]);
    },
    LIMIT_MS,
  );
});
