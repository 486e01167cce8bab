// The cluster's part of each cgroup hierarchy: version 1 (one hierarchy for each controller) or 2. kubelet wants the directory that
// it is given to exist; the kernel wants a version 1 cpuset to be filled before anything may run in it.
import { existsSync, mkdirSync, readdirSync, readFileSync, rmdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { waitFor } from "../harness/wait-for.ts";

const CPUSET_FILES = ["cpuset.cpus", "cpuset.mems"];

interface Hierarchy {
  readonly path: string;
  readonly version: 1 | 2;
}

function hierarchies(mountInfo = readFileSync("/proc/self/mountinfo", "utf8")): Hierarchy[] {
  return mountInfo.split("\n").flatMap((line): Hierarchy[] => {
    const [mount = "", filesystem = ""] = line.split(" - ");
    const type = filesystem.split(" ")[0];
    if (type !== "cgroup" && type !== "cgroup2") return [];
    return [{ path: mount.split(" ")[4] ?? "", version: type === "cgroup" ? 1 : 2 }];
  });
}

/** Those that have controllers: beside version 1, version 2 has none and only names groups. */
function controlling(all: readonly Hierarchy[]): readonly Hierarchy[] {
  const first = all.filter(({ version }) => version === 1);
  return first.length > 0 ? first : all;
}

/** `cgroup` is a path below each hierarchy's root. */
export function makeCgroup(cgroup: string): void {
  for (const hierarchy of controlling(hierarchies())) {
    let { path } = hierarchy;
    for (const part of cgroup.split("/")) {
      path = join(path, part);
      mkdirSync(path, { recursive: true });
      for (const file of CPUSET_FILES) copyFilled(file, path);
      enableControllers(path);
    }
  }
}

function copyFilled(file: string, path: string): void {
  const [own, parents] = [join(path, file), join(dirname(path), file)];
  // In version 2 an empty cpuset means the parent's.
  if (existsSync(join(path, "cgroup.controllers")) || !existsSync(own)) return;
  if (readFileSync(own, "utf8").trim() === "") writeFileSync(own, readFileSync(parents));
}

function enableControllers(path: string): void {
  const controllers = join(path, "cgroup.controllers");
  if (!existsSync(controllers)) return;
  const enabled = readFileSync(controllers, "utf8")
    .trim()
    .split(" ")
    .map((controller) => `+${controller}`);
  writeFileSync(join(path, "cgroup.subtree_control"), enabled.join(" "));
}

/** Its directory and all below it, parents first, in every hierarchy: a runtime makes it in those without controllers, too. */
export function cgroupDirectories(cgroup: string): string[] {
  return hierarchies().flatMap(({ path }) => treeOf(join(path, cgroup)));
}

function members(cgroup: string): number[] {
  const listed = cgroupDirectories(cgroup).flatMap((path) =>
    readFileSync(join(path, "cgroup.procs"), "utf8").split("\n"),
  );
  return [...new Set(listed.filter((line) => line !== "").map(Number))];
}

/** Ends what is in it, then removes it in every hierarchy. Idempotent. */
export async function removeCgroup(cgroup: string): Promise<void> {
  await waitFor(
    `cgroup ${cgroup} to be empty`,
    () => {
      const left = members(cgroup);
      for (const pid of left) process.kill(pid, "SIGKILL");
      if (left.length > 0) return undefined;
      // The kernel lets go of the last process a moment after it has ended: EBUSY until then.
      for (const path of cgroupDirectories(cgroup).reverse()) rmdirSync(path);
      return true;
    },
    { otherwise: () => `processes [${members(cgroup).join(", ")}] are in it` },
  );
}

function treeOf(path: string): string[] {
  if (!existsSync(path)) return [];
  const children = readdirSync(path, { withFileTypes: true }).filter((entry) => entry.isDirectory());
  return [path, ...children.flatMap(({ name }) => treeOf(join(path, name)))];
}
