// What makes a process tree a node: its own mount, network, UTS, IPC and PID namespaces, with its own /run, /var/lib, /var/log and
// /etc/lvm over this machine's root. The first process of the tree does nothing; when it is killed, the kernel ends all the others, as when
// power is cut.
import { randomUUID } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { KUBELET_DIRECTORY, VOLUME_GROUP_DEVICES } from "./node-settings.ts";
import type { ClusterPlaces, NodePlaces } from "./places.ts";
import { onlyChild, runningProcess, startRecorded } from "./recorded-process.ts";
import { runProgram } from "./run-program.ts";

/** Ignoring SIGCHLD makes the kernel reap what this process inherits. */
const FIRST_PROCESS = ["env", "--ignore-signal=CHLD", "sleep", "infinity"];
const UNSHARED = ["--mount", "--net", "--uts", "--ipc", "--pid", "--propagation", "private"];

const BOOT_ID = "kernel/random/boot_id";

/**
 * kubelet sets these for the whole machine, unless they have the values that it wants: in a node they seem to. A node that was
 * switched on anew has another boot id.
 */
const SEEMING_SYSCTLS: Readonly<Record<string, () => string>> = {
  "vm/overcommit_memory": () => "1",
  "vm/panic_on_oom": () => "0",
  "kernel/panic": () => "10",
  "kernel/panic_on_oops": () => "1",
  "kernel/keys/root_maxkeys": () => "1000000",
  "kernel/keys/root_maxbytes": () => "25000000",
  [BOOT_ID]: randomUUID,
};

/** The pid, on this machine, of the node's first process. The process recorded under the node's name waits for it and dies with it. */
export async function startNodeNamespaces(places: ClusterPlaces, node: NodePlaces): Promise<number> {
  const args = [...UNSHARED, "--fork", "--kill-child=SIGKILL", ...FIRST_PROCESS];
  await startRecorded(places, { name: node.name, command: "unshare", args });
  const first = await firstProcess(places, node);
  const [command, ...enter] = enterProcess(first);
  const script = [...mountCommands(node), `hostname ${node.name}`, ...unmountLoops(first)].join("\n");
  await runProgram(command, [...enter, "sh", "-euc", script]);
  return first;
}

async function firstProcess(places: ClusterPlaces, node: NodePlaces): Promise<number> {
  const holder = runningProcess(places, node.name);
  if (holder === undefined) throw new Error(`${node.name} has no power: make cluster ARGS="power-on ${node.name}"`);
  return onlyChild(holder);
}

function mountCommands(node: NodePlaces): string[] {
  const sysctls = Object.entries(SEEMING_SYSCTLS).map(([name, value]) => {
    const file = seemingFile(node, name);
    writeFileSync(file, `${value()}\n`);
    return `[ ! -e /proc/sys/${name} ] || mount --bind ${quoted(file)} /proc/sys/${name}`;
  });
  return [
    "mount --make-rshared /", // what is mounted in it, pods with mount propagation see
    "mount -t proc proc /proc",
    "mount -t tmpfs -o mode=755 tmpfs /run",
    `mount --bind ${quoted(node.varLib)} /var/lib`,
    `mount --bind ${quoted(node.varLog)} /var/log`,
    `mkdir -p ${KUBELET_DIRECTORY} /var/log/pods /etc/lvm ${VOLUME_GROUP_DEVICES}`,
    `mount --bind ${quoted(node.lvm)} /etc/lvm`,
    `mount -t tmpfs -o mode=755 tmpfs ${VOLUME_GROUP_DEVICES}`,
    ...sysctls,
  ];
}

function seemingFile(node: NodePlaces, sysctl: string): string {
  return join(node.settings, sysctl.replaceAll("/", "."));
}

/** What kubelet tells the API server of when it was switched on last. */
export function bootIdOf(node: NodePlaces): string {
  return readFileSync(seemingFile(node, BOOT_ID), "utf8").trim();
}

/** This machine's mounts of loop devices came along as copies, and would keep those devices busy for as long as the node lives. */
function unmountLoops(first: number): string[] {
  return (
    readFileSync(`/proc/${first}/mountinfo`, "utf8")
      .split("\n")
      .filter((line) => (line.split(" - ")[1] ?? "").split(" ")[1]?.startsWith("/dev/loop"))
      .map((line) => line.split(" ")[4] ?? "")
      .reverse()
      .map((path) => `"$(printf ${quoted(path)})"`)
      // One that its owner has unmounted meanwhile is gone here, too.
      .map((path) => `umount --lazy ${path} || if mountpoint --quiet ${path}; then exit 1; fi`)
  );
}

function quoted(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}

/** The beginning of a command line that runs the rest of it on the node. */
export async function enterNode(places: ClusterPlaces, node: NodePlaces): Promise<readonly [string, ...string[]]> {
  return enterProcess(await firstProcess(places, node));
}

function enterProcess(pid: number): readonly [string, ...string[]] {
  return ["nsenter", "--target", `${pid}`, "--mount", "--net", "--uts", "--ipc", "--pid", "--"];
}
