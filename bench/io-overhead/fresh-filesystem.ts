// A new filesystem of 4 GiB, mounted for one measurement and gone after it: ext4 on one device, or a span of one member or of four
// as the agent's own storage makes it.
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { runProgram } from "../../test/cluster/run-program.ts";
import {
  createSpanFixture,
  makeMember,
  makeSpan,
  type SpanFixture,
  withMembers,
} from "../../test/integration/storage/span-fixture.ts";

export const FILESYSTEMS = ["ext4", "span1", "span4"] as const;
export type FilesystemKind = (typeof FILESYSTEMS)[number];

export interface FreshFilesystem {
  readonly mountPath: string;
  /** Nothing that was written to its devices is left in this machine's memory. */
  dropCache(): Promise<void>;
}

const GIB = 2 ** 30;
const CAPACITY_GIB = 4;
const PREFIX = "/var/tmp/tidemark-bench-io-";
/** Ready when it is mounted: nothing is left to be done in the background. */
const AT_ONCE = "lazy_itable_init=0,lazy_journal_init=0";

/** Everything is taken down after `use`, however it ends. */
export async function withFilesystem<T>(
  kind: FilesystemKind,
  use: (filesystem: FreshFilesystem) => Promise<T>,
): Promise<T> {
  const fixture = await createSpanFixture(PREFIX);
  try {
    const made = kind === "ext4" ? await makeExt4(fixture) : await makeSpanOf(fixture, kind === "span1" ? 1 : 4);
    return await use(made);
  } finally {
    await fixture.cleanUp();
  }
}

async function makeExt4({ driver, directory }: SpanFixture): Promise<FreshFilesystem> {
  const mountPath = join(directory, "mounts/ext4");
  mkdirSync(mountPath, { recursive: true });
  driver.createVolume("ext4", CAPACITY_GIB * GIB);
  const file = driver.fileOf("ext4");
  const device = (await runProgram("losetup", ["--find", "--show", file])).trim();
  await runProgram("mkfs.ext4", ["-q", "-E", AT_ONCE, device]);
  await runProgram("mount", ["-o", "noatime", device, mountPath]);
  return { mountPath, dropCache: () => dropCacheOf([file]) };
}

/** As it comes to be: made on the first member, extended by the others. */
async function makeSpanOf(fixture: SpanFixture, count: number): Promise<FreshFilesystem> {
  const sizeBytes = (CAPACITY_GIB / count) * GIB;
  const members = Array.from({ length: count }, (_, index) => makeMember(fixture, `m${index}`, sizeBytes));
  const volume = makeSpan(members.slice(0, 1));
  const mountPath = fixture.mountPathOf(volume);
  const mounted = await fixture.storage.stage(volume, 0, mountPath);
  await fixture.storage.extend(withMembers(mounted, members), CAPACITY_GIB * GIB);
  const files = members.map((member) => fixture.driver.fileOf(member.volume?.volumeHandle ?? ""));
  return { mountPath, dropCache: () => dropCacheOf(files) };
}

/** As dd's manual says it; caches of the rest of the machine stay. */
async function dropCacheOf(files: readonly string[]): Promise<void> {
  for (const file of files)
    await runProgram("dd", [`of=${file}`, "oflag=nocache", "conv=notrunc,fdatasync", "count=0", "status=none"]);
}
