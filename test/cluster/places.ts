// Where everything of one test cluster lies: all of it under one run directory, so that what is left can be found by its path.
import { createHash } from "node:crypto";
import { mkdirSync } from "node:fs";
import { join } from "node:path";

export interface ClusterPlaces {
  readonly directory: string;
  /** What the cluster was asked to be, and the ports that it got: see cluster-state.ts. */
  readonly state: string;
  /** One file for each started program: its own line of /proc/PID/stat as it began. */
  readonly processes: string;
  readonly logs: string;
  readonly certificates: string;
  readonly images: string;
  readonly etcd: string;
  /** The administrator's, over loopback. */
  readonly kubeconfig: string;
  /** Below the root of each cgroup hierarchy; two clusters on one machine have different ones. */
  readonly cgroup: string;
}

export interface NodePlaces {
  readonly name: string;
  readonly directory: string;
  /** Containerd's, kubelet's, kube-proxy's and CNI's configuration. */
  readonly settings: string;
  /** The node's disk: its own /var/lib and /var/log. */
  readonly varLib: string;
  readonly varLog: string;
  /** Its own /etc/lvm; where there is a volume group on loop devices, with all of its data: see test/lvm-on-loop. */
  readonly lvm: string;
  readonly cgroup: string;
}

const IDENTITY_LENGTH = 8;

export function clusterPlaces(directory: string): ClusterPlaces {
  const identity = createHash("sha256").update(directory).digest("hex").slice(0, IDENTITY_LENGTH);
  return {
    directory,
    state: join(directory, "cluster.json"),
    processes: join(directory, "processes"),
    logs: join(directory, "logs"),
    certificates: join(directory, "certificates"),
    images: join(directory, "images"),
    etcd: join(directory, "etcd"),
    kubeconfig: join(directory, "kubeconfig"),
    cgroup: `tidemark-${identity}`,
  };
}

export function nodePlaces(places: ClusterPlaces, name: string): NodePlaces {
  const directory = join(places.directory, name);
  return {
    name,
    directory,
    settings: join(directory, "settings"),
    varLib: join(directory, "var-lib"),
    varLog: join(directory, "var-log"),
    lvm: join(directory, "lvm"),
    cgroup: `${places.cgroup}/${name}`,
  };
}

export function makeClusterDirectories(places: ClusterPlaces): void {
  for (const path of [places.processes, places.logs, places.certificates, places.images])
    mkdirSync(path, { recursive: true, mode: 0o700 });
}

export function makeNodeDirectories({ settings, varLib, varLog, lvm }: NodePlaces): void {
  for (const path of [settings, varLib, varLog, lvm]) mkdirSync(path, { recursive: true });
}

export function logOf(places: ClusterPlaces, program: string): string {
  return join(places.logs, `${program}.log`);
}
