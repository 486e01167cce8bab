// The unmanaged filesystem: made by hand, as one would without Tidemark, of a size that nothing ever changes.
import { mkdirSync } from "node:fs";
import { truncate, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { CommandPort } from "../../../src/platform/process/effects/command-port.ts";
import { runCommand } from "../run/command.ts";
import { capacityFileOf } from "../writers/simulated-room.ts";

export interface FixedVolume {
  readonly path: string;
  readonly sizeBytes: number;
  /** Simulated only: the file that holds the capacity. */
  readonly capacityFile: string | undefined;
}

/** btrfs on a loop device on a sparse file. Throws CommandError where this machine cannot do that. */
export async function makeFixedVolume(
  directory: string,
  sizeBytes: number,
  commands: CommandPort,
): Promise<FixedVolume> {
  const path = makeMountPoint(directory);
  const member = join(directory, "member");
  await writeFile(member, "", { mode: 0o600 });
  await truncate(member, sizeBytes);
  const device = await runCommand(commands, "demo/attach-loop", "/usr/sbin/losetup", ["--find", "--show", member]);
  await runCommand(commands, "demo/format", "/usr/sbin/mkfs.btrfs", ["--quiet", device]);
  await runCommand(commands, "demo/mount", "/usr/bin/mount", ["-t", "btrfs", device, path]);
  return { path, sizeBytes, capacityFile: undefined };
}

/** A plain directory, and a file that says how much fits in. */
export async function simulateFixedVolume(directory: string, sizeBytes: number): Promise<FixedVolume> {
  const path = makeMountPoint(directory);
  const capacityFile = capacityFileOf(path);
  await writeFile(capacityFile, String(sizeBytes), { mode: 0o600 });
  return { path, sizeBytes, capacityFile };
}

function makeMountPoint(directory: string): string {
  const path = join(directory, "mount");
  mkdirSync(path, { recursive: true, mode: 0o700 });
  return path;
}
