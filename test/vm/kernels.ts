// The kernels that suites run under in the virtual machine: Debian's, and a newer one, since what the kernel does differs.
import { existsSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";
import { takesAll } from "../harness/sample.ts";

/** Made by get-newer-kernel.sh. */
const NEWER_HOME = join(process.env["XDG_CACHE_HOME"] ?? join(homedir(), ".cache"), "tidemark", "uml");

export interface VmKernel {
  readonly name: string;
  /** For run-in-vm.sh. */
  readonly environment: Readonly<Record<string, string>>;
  /** What its suites need. */
  readonly parts: readonly ("uml" | "newer-uml")[];
}

/** Twice as fast as the other. */
export const NEWER_KERNEL: VmKernel = {
  name: "of Debian sid",
  environment: { VM_HOME: NEWER_HOME },
  parts: ["uml", "newer-uml"],
};

export const OLDER_KERNEL: VmKernel = { name: "of Debian stable", environment: {}, parts: ["uml"] };

/** The newer one; in the long run both. */
export function kernelsOfRun(): readonly VmKernel[] {
  return takesAll() ? [NEWER_KERNEL, OLDER_KERNEL] : [NEWER_KERNEL];
}

export function newerKernelProblem(): string | undefined {
  return existsSync(join(NEWER_HOME, "linux")) ? undefined : "there is no newer kernel (test/vm/get-newer-kernel.sh)";
}
