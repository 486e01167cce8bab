// What a cluster is: what was asked for, and what it got when it was made. Written once by `up`; every later command reads it.
import { existsSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { type ClusterPlaces, clusterPlaces } from "./places.ts";

export const FORWARDED_PORTS = ["kube-apiserver", "etcd", "kube-controller-manager", "kube-scheduler"] as const;
export type ForwardedPort = (typeof FORWARDED_PORTS)[number];

export const CLUSTER_PROGRAMS = [
  "etcd",
  "kube-apiserver",
  "kube-controller-manager",
  "kube-scheduler",
  "kubelet",
  "kube-proxy",
  "kubectl",
] as const;
export type ClusterProgram = (typeof CLUSTER_PROGRAMS)[number];

export interface ClusterSettings {
  readonly directory: string;
  readonly nodes: number;
  /** How long a silent node counts as Ready. */
  readonly nodeGraceSeconds: number;
  /** kubelet's syncFrequency; undefined: its own default, a minute. */
  readonly syncFrequency: string | undefined;
  /** Writes a second of each of kube-controller-manager's controllers; absent: its own default, 20. */
  readonly controllerQps?: number;
}

export interface Cluster {
  readonly places: ClusterPlaces;
  readonly settings: ClusterSettings;
  /** Their names. */
  readonly nodes: readonly string[];
  /** On this machine's loopback. */
  readonly ports: Readonly<Record<ForwardedPort, number>>;
  /** Absolute paths. */
  readonly programs: Readonly<Record<ClusterProgram, string>>;
}

export function nodeNames(count: number): string[] {
  return Array.from({ length: count }, (_, index) => `node${index + 1}`);
}

export function saveCluster({ places, ...rest }: Cluster): void {
  writeFileSync(`${places.state}.new`, `${JSON.stringify(rest, null, 2)}\n`);
  renameSync(`${places.state}.new`, places.state);
}

/** Throws when `up` never got so far in this directory. */
export function loadCluster(directory: string): Cluster {
  const places = clusterPlaces(directory);
  if (!existsSync(places.state)) throw new Error(`there is no cluster in ${directory}; make one: make cluster ARGS=up`);
  return { places, ...(JSON.parse(readFileSync(places.state, "utf8")) as Omit<Cluster, "places">) };
}
