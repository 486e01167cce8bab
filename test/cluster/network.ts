// The cluster's network: a namespace of its own with a bridge, to which every node is joined, and no way out. The control plane
// runs in it, so that it reaches kubelets, pods and webhooks as in a real cluster, and every cluster may use the same addresses.
import { readlinkSync } from "node:fs";
import { waitFor } from "../harness/wait-for.ts";
import { CONTROL_PLANE_ADDRESS, NETWORK_PREFIX_BITS, nodeAddress, nodePodAddresses } from "./addresses.ts";
import type { ClusterPlaces } from "./places.ts";
import { runningProcess, startRecorded } from "./recorded-process.ts";
import { runProgram } from "./run-program.ts";

/** The process that holds the namespace. */
export const NETWORK = "network";
const BRIDGE = "nodes";
const NODE_LINK = "eth0";

export async function startNetwork(places: ClusterPlaces): Promise<void> {
  await startRecorded(places, { name: NETWORK, command: "unshare", args: ["--net", "sleep", "infinity"] });
  await waitFor("the cluster's network", () => hasLeft(holderOf(places).pid) || undefined);
  const enter = enterNetwork(places);
  await inNetwork(enter, [
    "link set lo up",
    `link add ${BRIDGE} type bridge`,
    `addr add ${CONTROL_PLANE_ADDRESS}/${NETWORK_PREFIX_BITS} dev ${BRIDGE}`,
    `link set ${BRIDGE} up`,
  ]);
  await forwardPackets(enter);
}

/** `nodeProcess` is the pid of a process in the node's network namespace. */
export async function joinNetwork(places: ClusterPlaces, index: number, nodeProcess: number): Promise<void> {
  const link = `node${index + 1}`;
  const enter = enterNetwork(places);
  // A node that has just lost its power may still have its end of the former link.
  await inNetwork(enter, [`link del ${link}`]).catch(() => undefined);
  await inNetwork(enter, [
    `link add ${link} type veth peer name ${NODE_LINK} netns ${nodeProcess}`,
    `link set ${link} master ${BRIDGE} up`,
    `route replace ${nodePodAddresses(index)} via ${nodeAddress(index)}`,
  ]);
  const enterNode = enterNamespace(nodeProcess);
  await inNetwork(enterNode, [
    "link set lo up",
    `addr add ${nodeAddress(index)}/${NETWORK_PREFIX_BITS} dev ${NODE_LINK}`,
    `link set ${NODE_LINK} up`,
    `route add default via ${CONTROL_PLANE_ADDRESS}`,
  ]);
  await forwardPackets(enterNode);
}

/** The beginning of a command line that runs the rest of it in the cluster's network. */
export function enterNetwork(places: ClusterPlaces): readonly [string, ...string[]] {
  return enterNamespace(holderOf(places).pid);
}

function holderOf(places: ClusterPlaces): { readonly pid: number } {
  const holder = runningProcess(places, NETWORK);
  if (holder !== undefined) return holder;
  throw new Error("the cluster's network is gone; make the cluster anew: make cluster ARGS=up");
}

/** It begins in this machine's network, and what is set up before it has left that would be set up here. */
function hasLeft(pid: number): boolean {
  return readlinkSync(`/proc/${pid}/ns/net`) !== readlinkSync("/proc/self/ns/net");
}

function enterNamespace(pid: number): readonly [string, ...string[]] {
  return ["nsenter", `--net=/proc/${pid}/ns/net`];
}

async function inNetwork([command, ...enter]: readonly [string, ...string[]], lines: readonly string[]): Promise<void> {
  await runProgram(command, [...enter, "ip", "-batch", "-"], { input: `${lines.join("\n")}\n` });
}

async function forwardPackets([command, ...enter]: readonly [string, ...string[]]): Promise<void> {
  await runProgram(command, [...enter, "sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward"]);
}
