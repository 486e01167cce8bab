// The part of a node's agent that makes logical volumes, without LVM: LogicalVolumes' status and NodeStorage, by the rules of the real
// one. What is "on the node" are numbers, which stay when objects are deleted.
import { FILESYSTEM_LAYOUTS, type FilesystemLayout } from "../../src/contracts/kinds/filesystem-layout.ts";
import {
  LOGICAL_VOLUMES,
  type LogicalVolume,
  type LogicalVolumeSpec,
  type LogicalVolumeStatus,
} from "../../src/contracts/kinds/logical-volume.ts";
import { NODE_STORAGES } from "../../src/contracts/kinds/node-storage.ts";
import type { KubeObject, Resource } from "../../src/contracts/kubernetes/object.ts";
import { API_VERSION, FIELD_MANAGERS } from "../../src/contracts/names.ts";
import { formatQuantity, parseQuantity } from "../../src/contracts/quantities/quantity.ts";
import { createReflector } from "../../src/platform/kube/cache/reflector.ts";
import type { KubeClient } from "../../src/platform/kube/client/client.ts";
import type { Logger } from "../../src/platform/process/log.ts";

export interface FakeLvmNode {
  /** Sizes by what LVM calls them. */
  readonly volumes: Map<string, number>;
  /** Every volume that was ever made, in order. */
  readonly made: string[];
  /** By device class; the first one is the default, and those are thin that are called so. */
  readonly freeBytes: Map<string, number>;
  /** While set, nothing is done and nothing is said. */
  silent: boolean;
  /** While set, no volume is made, and this is said. */
  failWith: Pick<LogicalVolumeStatus, "code" | "message"> | undefined;
  /** Looks at everything again, as after a start. */
  look(): void;
  publish(): Promise<void>;
  stop(): Promise<void>;
}

const STATUS = { fieldManager: FIELD_MANAGERS.agent, subresource: "status" } as const;
const EXTENT_BYTES = 4 * 1024 ** 2;
const RESOURCE_EXHAUSTED = 8;
const NOT_FOUND = 5;
const OUT_OF_RANGE = 11;
const UNIMPLEMENTED = 12;
const FINAL_CODES: readonly (number | undefined)[] = [RESOURCE_EXHAUSTED, NOT_FOUND, OUT_OF_RANGE, UNIMPLEMENTED];

function isThin(deviceClass: string): boolean {
  return deviceClass.startsWith("thin");
}

export async function startFakeLvmNode(
  client: KubeClient,
  nodeName: string,
  free: Readonly<Record<string, string>>,
  log: Logger,
): Promise<FakeLvmNode> {
  const logicalVolumes = createReflector({ client, resource: LOGICAL_VOLUMES, log });
  const layouts = createReflector({ client, resource: FILESYSTEM_LAYOUTS, log });
  const work: Promise<void>[] = [];
  const node: FakeLvmNode = {
    volumes: new Map(),
    made: [],
    freeBytes: new Map(Object.entries(free).map(([name, size]) => [name, parseQuantity(size)])),
    silent: false,
    failWith: undefined,
    look: () => {
      logicalVolumes.store.list().forEach(take);
      layouts.store.list().forEach(remove);
    },
    publish: () => publishStorage(client, nodeName, node),
    stop: async () => {
      await Promise.all([logicalVolumes.stop(), layouts.stop()]);
      await Promise.allSettled(work);
    },
  };
  const take = (one: LogicalVolume): void => {
    if (one.spec.nodeName !== nodeName || node.silent) return;
    const source = logicalVolumes.store.get(one.spec.source ?? "");
    const status = one.spec.state === "Removed" ? removeSnapshot(node, one) : carryOut(node, one, source);
    if (status !== undefined) work.push(say(client, LOGICAL_VOLUMES, one.metadata.name, status, log));
  };
  const remove = (layout: FilesystemLayout): void => {
    const [member] = layout.spec.members ?? [];
    const source = member?.source.logicalVolume;
    if (layout.spec.nodeName !== nodeName || node.silent || member?.state !== "Removed" || source === undefined) return;
    node.volumes.delete(source.volumeID);
    const status = { nodeName, members: [{ name: member.name, size: "0", state: "Removed" }] };
    if (layout.status?.members?.[0]?.state === "Removed") return;
    work.push(say(client, FILESYSTEM_LAYOUTS, layout.metadata.name, status, log));
  };
  logicalVolumes.subscribe({ added: take, updated: take });
  layouts.subscribe({ added: remove, updated: remove });
  logicalVolumes.start();
  layouts.start();
  await Promise.all([logicalVolumes.synced, layouts.synced]);
  await node.publish();
  return node;
}

function removeSnapshot(node: FakeLvmNode, { metadata, status }: LogicalVolume): LogicalVolumeStatus | undefined {
  if (status?.state === "Removed" || !metadata.name.startsWith("snap-")) return undefined;
  node.volumes.delete(status?.volumeID ?? metadata.uid ?? "");
  return { observedGeneration: metadata.generation, state: "Removed" };
}

/** Undefined: there is nothing new to say. */
function carryOut(
  node: FakeLvmNode,
  { metadata, spec, status }: LogicalVolume,
  source: LogicalVolume | undefined,
): LogicalVolumeStatus | undefined {
  if (status?.volumeID !== undefined) return undefined;
  const { uid = "", generation } = metadata;
  const volumeID = spec.volumeID ?? uid;
  if (spec.volumeID === undefined && !node.volumes.has(uid)) {
    if (FINAL_CODES.includes(status?.code) && status?.observedGeneration === generation) return undefined;
    const failure =
      node.failWith ?? (spec.source === undefined ? make(node, uid, spec) : copy(node, uid, spec, source));
    if (failure !== undefined)
      return status?.code === failure.code ? undefined : { observedGeneration: generation, ...failure };
  }
  const sizeBytes = node.volumes.get(volumeID);
  if (sizeBytes === undefined) return { observedGeneration: generation, code: NOT_FOUND, message: "no such volume" };
  return { observedGeneration: generation, volumeID, currentSize: formatQuantity(sizeBytes) };
}

function copy(
  node: FakeLvmNode,
  volumeID: string,
  spec: LogicalVolumeSpec,
  source: LogicalVolume | undefined,
): LogicalVolumeStatus | undefined {
  const sourceBytes = node.volumes.get(source?.status?.volumeID ?? "");
  if (sourceBytes === undefined) return { code: NOT_FOUND, message: "source logical volume is not found" };
  if (!isThin(spec.deviceClass)) return { code: UNIMPLEMENTED, message: "device class is not thin" };
  if (spec.accessType === "ro") return make(node, volumeID, { ...spec, size: formatQuantity(sourceBytes) });
  if (parseQuantity(spec.size) < sourceBytes) return { code: OUT_OF_RANGE, message: "smaller than source" };
  return make(node, volumeID, spec);
}

function make(
  node: FakeLvmNode,
  volumeID: string,
  { deviceClass, size }: LogicalVolumeSpec,
): LogicalVolumeStatus | undefined {
  const sizeBytes = Math.ceil(parseQuantity(size) / EXTENT_BYTES) * EXTENT_BYTES;
  const freeBytes = node.freeBytes.get(deviceClass);
  if (freeBytes === undefined) return { code: NOT_FOUND, message: `device-class not found: ${deviceClass}` };
  if (sizeBytes > freeBytes) return { code: RESOURCE_EXHAUSTED, message: "insufficient free space: 1 extent" };
  node.freeBytes.set(deviceClass, freeBytes - sizeBytes);
  node.volumes.set(volumeID, sizeBytes);
  node.made.push(volumeID);
  return undefined;
}

async function say<T extends KubeObject>(
  client: KubeClient,
  resource: Resource<T>,
  name: string,
  status: object,
  log: Logger,
): Promise<void> {
  const said = { apiVersion: API_VERSION, kind: resource.kind, metadata: { name }, status };
  try {
    await client.apply("fake-node/status", resource, said, STATUS);
  } catch (error) {
    log.debug({ err: error, name }, "the object went away");
  }
}

async function publishStorage(client: KubeClient, nodeName: string, node: FakeLvmNode): Promise<void> {
  const metadata = { name: nodeName };
  const identity = { apiVersion: API_VERSION, kind: NODE_STORAGES.kind, metadata };
  const { fieldManager } = STATUS;
  await client.apply("fake-node/storage", NODE_STORAGES, { ...identity, spec: {} }, { fieldManager });
  const deviceClasses = [...node.freeBytes].map(([name, bytes], index) => ({
    name,
    backend: "lvm",
    free: formatQuantity(bytes),
    default: index === 0,
    ...(isThin(name) && { thinPool: { dataPercent: 1, metadataPercent: 1 } }),
  }));
  await client.apply("fake-node/storage-status", NODE_STORAGES, { ...identity, status: { deviceClasses } }, STATUS);
}
