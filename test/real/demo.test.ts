// `tidemark demo` as a newcomer ends it: nothing of it stays on the machine. What it shows is timed, and for people to look at.
import { type ChildProcess, spawn } from "node:child_process";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "@jest/globals";
import { loopDevicesUnder, mountsUnder } from "../../src/demo/mount-table.ts";
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
  /** Its exit code. */
  readonly ended: Promise<number | null>;
}

function startDemo(...flags: string[]): Demo {
  const picture = ["--picture", join(directory, "picture.svg")];
  const args = [BUNDLE_PATH, "demo", "--json", "--directory", join(directory, "runs"), ...picture, ...flags];
  const child = spawn(process.execPath, args, { stdio: "ignore" });
  children.push(child);
  return { child, ended: new Promise((resolve) => child.once("close", resolve)) };
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
    "leaves nothing behind after Ctrl-C",
    async () => {
      const demo = startDemo();
      await mounted();
      demo.child.kill("SIGINT");
      expect(await demo.ended).toBe(130);
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
