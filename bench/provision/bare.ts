// The same work by hand: lvcreate, mkfs, mount, all volumes at once.
import { execFile } from "node:child_process";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import type { LvmOfStack } from "../../test/harness/lvm-of-stack.ts";
import { cpuOf } from "./cpu.ts";

const execute = promisify(execFile);

export interface Bare {
  /** From the beginning until each is mounted. */
  readonly mountedMs: readonly number[];
  /** Of all the programs. */
  readonly cpuMs: number;
}

/** Everything is taken away again afterwards. */
export async function provisionBare(
  { ground, group }: LvmOfStack,
  directory: string,
  count: number,
  sizeBytes: number,
): Promise<Bare> {
  const names = Array.from({ length: count }, (_, index) => `bare${index}`);
  const [startMs, cpuBeforeMs] = [performance.now(), cpuOf(process.pid).programsMs];
  const mountedMs = await Promise.all(
    names.map(async (name) => {
      const mountPath = join(directory, name);
      mkdirSync(mountPath, { recursive: true });
      const own = ["--config", "backup { backup=1 archive=0 }"];
      await ground.lvm("lvcreate", ...own, "-n", name, "-L", `${sizeBytes}b`, "-W", "y", "-y", group);
      await execute("mkfs.btrfs", ["--quiet", `/dev/${group}/${name}`]);
      await execute("mount", [`/dev/${group}/${name}`, mountPath]);
      return performance.now() - startMs;
    }),
  );
  const cpuMs = cpuOf(process.pid).programsMs - cpuBeforeMs;
  for (const name of names) {
    await execute("umount", [join(directory, name)]);
    await ground.lvm("lvremove", "--force", `${group}/${name}`);
  }
  return { mountedMs, cpuMs };
}
