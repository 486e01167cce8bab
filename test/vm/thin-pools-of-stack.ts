// The real stack over real thin pools, for a suite inside the virtual machine: what LVM says of a pool, what a user is told of it, and a
// writer that goes on until the pool is this full. What is looked at is the world, and never a process.
import { randomUUID } from "node:crypto";
import { closeSync, fsyncSync, openSync, readFileSync, rmSync, writeSync } from "node:fs";
import { join } from "node:path";
import type { NodeRecord } from "../../src/agent/volumes/node-records.ts";
import { NODE_STORAGES, type NodeStorage } from "../../src/contracts/kinds/node-storage.ts";
import { CLUSTER_VOLUME_POLICIES, type ClusterVolumePolicySpec } from "../../src/contracts/kinds/volume-policy.ts";
import { EVENTS, type Event } from "../../src/contracts/kubernetes/resources.ts";
import { MIB } from "../../src/contracts/quantities/quantity.ts";
import { NODE_NAME, type Stack } from "../harness/stack.ts";
import { waitFor } from "../harness/wait-for.ts";
import { sh } from "./lvmd/lvmd-under-test.ts";

const PIECE = Buffer.alloc(4 * MIB, "tide");
const API_VERSION = "tidemark.dev/v1alpha1";

interface PoolNow {
  readonly sizeBytes: number;
  readonly usedBytes: number;
  readonly metadataBytes: number;
  readonly metadataPercent: number;
}

/** As LVM says it now. */
export function poolNow(group: string): PoolNow {
  const fields = "lv_size,data_percent,lv_metadata_size,metadata_percent";
  const [size, data, metadataSize, metadata] = sh(
    `lvs --noheadings --units b --nosuffix -o ${fields} ${group}/pool`,
  ).match(/[\d.]+/g) as [string, string, string, string];
  const sizeBytes = Number(size);
  return {
    sizeBytes,
    usedBytes: (sizeBytes * Number(data)) / 100,
    metadataBytes: Number(metadataSize),
    metadataPercent: Number(metadata),
  };
}

/** With files that stay. */
export function fillUntilUsed(directory: string, group: string, usedBytes: number): void {
  for (;;) {
    const missingBytes = usedBytes - poolNow(group).usedBytes;
    if (missingBytes <= 0) return;
    writeBallast(directory, missingBytes);
  }
}

/** One file of at least this many bytes, on the disk. */
export function writeBallast(directory: string, sizeBytes: number): string {
  const path = join(directory, randomUUID());
  const file = openSync(path, "w");
  for (let written = 0; written < sizeBytes; written += PIECE.length) writeSync(file, PIECE);
  fsyncSync(file);
  closeSync(file);
  return path;
}

/** Gone from the filesystem, and from its journal. */
export function removeBallast(path: string): void {
  rmSync(path);
  sh("sync");
}

/** A few bytes in each of so many chunks from the first one on: they cost metadata, and next to no data. */
export function touchChunks(device: string, first: number, count: number, chunkBytes: number): void {
  const file = openSync(device, "r+");
  for (let chunk = first; chunk < first + count; chunk += 1) writeSync(file, PIECE, 0, 4096, chunk * chunkBytes);
  fsyncSync(file);
  closeSync(file);
}

export async function applyClusterPolicy(stack: Stack, name: string, spec: ClusterVolumePolicySpec): Promise<void> {
  const policy = { apiVersion: API_VERSION, kind: "ClusterVolumePolicy", metadata: { name }, spec };
  const options = { fieldManager: "test", force: true };
  await stack.client.apply("test/apply-policy", CLUSTER_VOLUME_POLICIES, policy, options);
}

export async function deleteClusterPolicy(stack: Stack, name: string): Promise<void> {
  await stack.client.delete("test/delete-policy", CLUSTER_VOLUME_POLICIES, { name });
}

type ToldClass = NonNullable<NonNullable<NodeStorage["status"]>["deviceClasses"]>[number];

/** The entry of a class in the node's NodeStorage. */
export async function toldOf(stack: Stack, deviceClass: string): Promise<ToldClass | undefined> {
  const storage = await stack.client.get(NODE_STORAGES, { name: NODE_NAME });
  return storage?.status?.deviceClasses?.find(({ name }) => name === deviceClass);
}

/** "Reason: message" of all Events on an object. */
export async function eventsOn(stack: Stack, kind: string, name: string): Promise<string[]> {
  const { items } = await stack.client.list(EVENTS);
  return items
    .filter(({ involvedObject }: Event) => involvedObject.kind === kind && involvedObject.name === name)
    .map(({ reason, message }) => `${reason}: ${message}`);
}

export async function waitForEvent(stack: Stack, kind: string, name: string, said: RegExp): Promise<void> {
  await waitFor(
    `an Event on ${kind} ${name} that says ${said}`,
    async () => ((await eventsOn(stack, kind, name)).some((event) => said.test(event)) ? true : undefined),
    {
      intervalMs: 300,
      otherwise: async () => `${(await eventsOn(stack, kind, name)).join("\n")}\n${stack.tellLogs()}`,
    },
  );
}

/** A volume's first trim is counted from here. */
export async function waitForTrimsWanted(stack: Stack, handle: string): Promise<void> {
  const path = join(stack.stateDirectory, "volumes", `${handle}.json`);
  const look = (): true | undefined =>
    (JSON.parse(readFileSync(path, "utf8")) as NodeRecord).trimWantedAt === undefined ? undefined : true;
  await waitFor(`the trims of ${handle} to be wanted`, look, { otherwise: () => stack.tellLogs() });
}

/** A gauge or counter of the agent. */
export async function metricOf(stack: Stack, series: string): Promise<number | undefined> {
  const text = await (await fetch(`http://127.0.0.1:${stack.httpPorts.agent}/metrics`)).text();
  const line = text.split("\n").find((one) => one.startsWith(`${series} `));
  return line === undefined ? undefined : Number(line.split(" ").at(-1));
}

/** The time in which the slowest of machines has seen and done it. */
export async function waitForPool(
  stack: Stack,
  group: string,
  what: string,
  isSo: (pool: PoolNow) => boolean,
): Promise<void> {
  await waitFor(`the pool of ${group} ${what}`, () => (isSo(poolNow(group)) ? true : undefined), {
    limitMs: 180_000,
    intervalMs: 300,
    otherwise: async () =>
      `${JSON.stringify(poolNow(group))}\n${(await eventsOn(stack, "NodeStorage", NODE_NAME)).join("\n")}\n${stack.tellLogs()}`,
  });
}
