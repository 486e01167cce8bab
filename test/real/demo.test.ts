// `make demo` as a newcomer runs it, whole: what it does is in its summary, and nothing of it stays on the machine. How fast
// it was is for people to look at; it decides nothing here.
import { type ChildProcess, spawn } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "@jest/globals";
import { loopDevicesUnder, mountsUnder } from "../../demo/show/run/mount-table.ts";
import type { DemoSummary } from "../../demo/show/views/summary.ts";
import { DEMO_PATH } from "../harness/bundle-process.ts";
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

interface Ending {
  readonly exitCode: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

interface Demo {
  readonly child: ChildProcess;
  readonly ended: Promise<Ending>;
}

function startDemo(...flags: string[]): Demo {
  const picture = ["--picture", join(directory, "picture.svg")];
  const args = [DEMO_PATH, "run", "--json", "--directory", join(directory, "runs"), ...picture, ...flags];
  const child = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "pipe"] });
  children.push(child);
  const printed = { stdout: "", stderr: "" };
  for (const name of ["stdout", "stderr"] as const)
    child[name].on("data", (chunk: Buffer) => {
      printed[name] += chunk.toString();
    });
  return {
    child,
    ended: new Promise((resolve) => child.once("close", (exitCode) => resolve({ exitCode, ...printed }))),
  };
}

async function summaryOf(demo: Demo): Promise<DemoSummary> {
  const { exitCode, stdout, stderr } = await demo.ended;
  if (exitCode !== 0) throw new Error(`the demo ended with ${exitCode}: ${stderr}`);
  return JSON.parse(stdout) as DemoSummary;
}

/** Both filesystems of a run that began after `before` was left. */
async function mounted(before: readonly string[] = []): Promise<void> {
  const own = (): string[] => mountsUnder(directory).filter((path) => !before.includes(path));
  await waitFor("the run's filesystems to be mounted", () => (own().length > 1 ? true : undefined), {
    limitMs: LIMIT_MS / 4,
  });
}
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
      expect((await demo.ended).exitCode).toBe(130);
      expect(left()).toEqual([]);
    },
    LIMIT_MS,
  );

  it(
    "leaves nothing behind when whoever reads it goes away",
    async () => {
      const demo = startDemo();
      await mounted();
      demo.child.stdout?.destroy();
      demo.child.stderr?.destroy();
      expect((await demo.ended).exitCode).toBe(130);
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
      const before = left();
      expect(before).not.toEqual([]);
      const next = startDemo();
      await mounted(before);
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
