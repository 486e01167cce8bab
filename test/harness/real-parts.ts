// The real parts that some tests cannot do without. Where one is missing, such tests are skipped loudly; in CI, which sets
// TIDEMARK_REQUIRE_REAL=true, they fail instead.
import { execFileSync } from "node:child_process";
import { existsSync } from "node:fs";
import { describe, it } from "@jest/globals";
import { clusterProblem } from "../cluster/cluster-programs.ts";
import { newerKernelProblem } from "../vm/kernels.ts";
import { BUNDLE_PATH } from "./bundle-process.ts";
import { csiSanityProblem } from "./csi-sanity.ts";

const PROBES = {
  root: () => (process.getuid?.() === 0 ? undefined : "this is not root"),
  loop: () => (runs("losetup", "--find") ? undefined : "there is no free loop device"),
  btrfs: () => (runs("btrfs", "--version") ? undefined : "btrfs-progs is not installed"),
  lvm: () => (runs("lvm", "version") ? undefined : "package lvm2 is not installed"),
  prometheus: () => (existsSync("/usr/bin/prometheus") ? undefined : "package prometheus is not installed"),
  strace: () => (runs("strace", "--version") ? undefined : "package strace is not installed"),
  uml: () => (existsSync("/usr/bin/linux.uml") ? undefined : "package user-mode-linux is not installed"),
  "newer-uml": newerKernelProblem,
  "device-mapper": () =>
    ["/sbin/lvm", "/sbin/dmsetup", "/usr/sbin/thin_check"].every((path) => existsSync(path))
      ? undefined
      : "packages lvm2, dmsetup and thin-provisioning-tools are not installed",
  "csi-sanity": csiSanityProblem,
  cluster: clusterProblem,
  bundle: () => (existsSync(BUNDLE_PATH) ? undefined : `${BUNDLE_PATH} is not built (make build)`),
} as const;

export type RealPart = keyof typeof PROBES;

/** What storage on real loop devices needs. */
export const LOOP_PARTS: readonly RealPart[] = ["root", "loop", "btrfs"];

/** What the whole stack on real loop devices needs. */
export const STACK_PARTS: readonly RealPart[] = [...LOOP_PARTS, "bundle"];

/** `describe` for tests that need these parts. */
export function describeReal(name: string, parts: readonly RealPart[], body: () => void): void {
  describeWithout(
    parts.map((part) => PROBES[part]()).filter((problem) => problem !== undefined),
    name,
    body,
  );
}

/** `describe` for tests that cannot run for these reasons; without any it is `describe` itself. */
export function describeWithout(problems: readonly string[], name: string, body: () => void): void {
  if (problems.length === 0) {
    describe(name, body);
    return;
  }
  const reason = `${name}: not run, since ${problems.join(" and ")}`;
  if (!requiresReal()) {
    console.warn(reason);
    describe.skip(name, body);
    return;
  }
  describe(name, () => {
    it("has its real parts", () => {
      throw new Error(reason);
    });
  });
}

/** The same for one test. */
export function itWithout(problem: string | undefined, ...[name, body, limitMs]: Parameters<typeof it>): void {
  if (problem === undefined) {
    it(name, body, limitMs);
    return;
  }
  const reason = `${String(name)}: not run, since ${problem}`;
  if (requiresReal()) {
    it(name, () => {
      throw new Error(reason);
    });
    return;
  }
  console.warn(reason);
  it.skip(name, body, limitMs);
}

function requiresReal(): boolean {
  return process.env["TIDEMARK_REQUIRE_REAL"] === "true";
}

function runs(command: string, ...args: string[]): boolean {
  try {
    execFileSync(command, args, { stdio: "ignore" });
    return true;
  } catch {
    return false;
  }
}
