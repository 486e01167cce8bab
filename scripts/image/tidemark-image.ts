// Tidemark's own image: one for all processes. Node and the programs that the agent runs come from this machine, with their shared
// libraries, at Debian's places. It has no shell and no package manager.
import { accessSync, constants, existsSync, realpathSync } from "node:fs";
import { isAbsolute, join } from "node:path";
import { PROGRAMS } from "../../src/agent/storage/tools.ts";
import { readBundle } from "./bundle-files.ts";
import type { Layer, LayerEntry } from "./layer.ts";
import { type Image, writeOciArchive } from "./oci-archive.ts";
import { sharedLibrariesOf, withRealDirectory } from "./shared-libraries.ts";

/** What agent and lvmd call by these very paths, in addition to the programs that they search. */
export const FIXED_PROGRAMS = [
  "/usr/bin/flock",
  "/usr/bin/ln",
  "/usr/bin/mount",
  // Of lvmd: LVM is the node's own.
  "/usr/bin/nsenter",
  "/usr/bin/rmdir",
  "/usr/bin/umount",
  "/usr/sbin/blkdiscard",
] as const;

const PROGRAM_DIRECTORIES = ["/usr/sbin", "/usr/bin", "/sbin", "/bin"];
const NODE_PATH = "/usr/bin/node";
const BUNDLE_DIRECTORY = "/opt/tidemark";
/** The user of every process but the agent. */
export const USER_ID = 65532;

/** `distDirectory` holds the bundle. The same machine and bundle make the same bytes. Returns the image's digest. */
export async function writeTidemarkImage(path: string, name: string, distDirectory: string): Promise<string> {
  return writeOciArchive({ path, ...tidemarkImage(name, distDirectory) });
}

export function tidemarkImage(name: string, distDirectory: string): Image {
  return {
    names: [completeName(name)],
    entrypoint: [NODE_PATH, join(BUNDLE_DIRECTORY, "tidemark.mjs")],
    workingDirectory: "/",
    // What changes with every build comes last, so that a node has the large part already.
    layers: [systemLayer(), bundleLayer(distDirectory)],
  };
}

/** As a runtime looks it up when a pod says `name`: one without a registry is one of Docker Hub's library. */
function completeName(name: string): string {
  return name.includes("/") ? name : `docker.io/library/${name}`;
}

function systemLayer(): Layer {
  const node = realpathSync(process.execPath);
  const programs = [...new Set([...PROGRAMS.map(findProgram), ...FIXED_PROGRAMS])];
  const libraries = new Set([node, ...programs].flatMap(sharedLibrariesOf));
  return [
    ...rootEntries(),
    { kind: "file", path: NODE_PATH, from: node },
    ...nodeScripts().map((path): LayerEntry => ({ kind: "file", path, from: path })),
    ...programs.map((path): LayerEntry => ({ kind: "file", path: withRealDirectory(path), from: path })),
    ...[...libraries].map((path): LayerEntry => ({ kind: "file", path, from: path, mode: 0o755 })),
  ];
}

function findProgram(program: string): string {
  const found = PROGRAM_DIRECTORIES.map((directory) => join(directory, program)).find(isExecutable);
  if (found === undefined)
    throw new Error(
      `${program} is not on this machine; install btrfs-progs, e2fsprogs, xfsprogs, mount and util-linux`,
    );
  return found;
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

/** Parts of Node itself that a distribution stores as files next to the program. */
function nodeScripts(): string[] {
  const { node_builtin_shareable_builtins: builtins } = process.config.variables as Record<string, unknown>;
  const paths = Array.isArray(builtins) ? builtins : Object.values((builtins ?? {}) as Record<string, unknown>);
  return paths.filter((path): path is string => typeof path === "string" && isAbsolute(path) && existsSync(path));
}

function rootEntries(): LayerEntry[] {
  return [
    ...["bin", "sbin", "lib", "lib64"].map(
      (name): LayerEntry => ({ kind: "symlink", path: `/${name}`, target: `usr/${name}` }),
    ),
    ...["/usr/lib64", "/dev", "/proc", "/sys", "/run", "/var/lib/kubelet", "/var/lib/tidemark"].map(
      (path): LayerEntry => ({ kind: "directory", path }),
    ),
    { kind: "directory", path: "/tmp", mode: 0o1777 },
    { kind: "symlink", path: "/var/run", target: "/run" },
    { kind: "symlink", path: "/etc/mtab", target: "../proc/self/mounts" },
    {
      kind: "text",
      path: "/etc/passwd",
      text: `root:x:0:0:root:/:/nonexistent\ntidemark:x:${USER_ID}:${USER_ID}:tidemark:/:/nonexistent\n`,
    },
    { kind: "text", path: "/etc/group", text: `root:x:0:\ntidemark:x:${USER_ID}:\n` },
    { kind: "text", path: "/etc/nsswitch.conf", text: "passwd: files\ngroup: files\nhosts: files dns\n" },
    // Which features a new ext4 has.
    { kind: "file", path: "/etc/mke2fs.conf", from: "/etc/mke2fs.conf" },
  ];
}

function bundleLayer(distDirectory: string): Layer {
  return readBundle(distDirectory).map(({ name, text }) => ({
    kind: "text",
    path: join(BUNDLE_DIRECTORY, name),
    text,
    mode: 0o644,
  }));
}
