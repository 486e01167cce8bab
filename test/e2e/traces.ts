// What a cluster leaves in the kernel: processes, mounts, cgroups and network namespaces, found without its own records.
import { closeSync, existsSync, openSync, readdirSync, readFileSync, readlinkSync } from "node:fs";
import { mountsUnder } from "../../demo/show/run/mount-table.ts";
import { cgroupDirectories } from "../cluster/cgroups.ts";
import type { ClusterPlaces } from "../cluster/places.ts";

export interface Traces {
  /** "pid command line". */
  readonly processes: readonly string[];
  readonly networkNamespaces: readonly string[];
  readonly mounts: readonly string[];
  readonly cgroups: readonly string[];
  readonly directories: readonly string[];
}

export const NO_TRACES: Traces = { processes: [], networkNamespaces: [], mounts: [], cgroups: [], directories: [] };

/** `known` are earlier traces: a namespace of theirs that still has a process is one, whatever the process is. */
export function clusterTraces(places: ClusterPlaces, known: Traces = NO_TRACES): Traces {
  const own = networkNamespace("self");
  const all = processIds().map((pid) => ({ pid, network: networkNamespace(pid), command: commandLine(pid) }));
  const named = all.filter(({ pid, command }) => command.includes(places.directory) && pid !== `${process.pid}`);
  const namespaces = new Set([...known.networkNamespaces, ...named.map(({ network }) => network)]);
  namespaces.delete(own);
  namespaces.delete("");
  const processes = all.filter((one) => namespaces.has(one.network) || named.includes(one));
  return {
    processes: processes.map(({ pid, command }) => `${pid} ${command}`),
    networkNamespaces: [...new Set(processes.map(({ network }) => network))].filter((network) =>
      namespaces.has(network),
    ),
    mounts: mountsUnder(places.directory),
    cgroups: cgroupDirectories(places.cgroup),
    directories: [places.directory, `${places.directory}.lock`].filter((path) => existsSync(path)),
  };
}

/**
 * The kernel gives the number of a namespace that is gone to the next one, which may be another cluster's: those of these traces
 * keep theirs until what is returned is called. Nothing else of them is kept alive by it.
 */
export function holdNetworkNamespaces({ processes }: Traces): () => void {
  const held = processes.flatMap((line) => openedNamespace(Number.parseInt(line, 10)));
  return () => {
    for (const file of held) closeSync(file);
  };
}

function openedNamespace(pid: number): number[] {
  try {
    return [openSync(`/proc/${pid}/ns/net`, "r")];
  } catch {
    return []; // it has ended
  }
}

function processIds(): string[] {
  return readdirSync("/proc").filter((name) => /^\d+$/.test(name));
}

function networkNamespace(pid: string): string {
  try {
    return readlinkSync(`/proc/${pid}/ns/net`);
  } catch {
    return ""; // it has ended
  }
}

function commandLine(pid: string): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, "utf8").replaceAll("\0", " ").trim();
  } catch {
    return "";
  }
}
