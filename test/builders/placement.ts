// A cluster for placement, as objects in plain stores: what an extender sees, without a server.
import type { FilesystemLayout, MemberSpec } from "../../src/contracts/kinds/filesystem-layout.ts";
import type { LogicalVolume } from "../../src/contracts/kinds/logical-volume.ts";
import type { NodeStorage } from "../../src/contracts/kinds/node-storage.ts";
import type {
  CSINode,
  Node,
  PersistentVolume,
  PersistentVolumeClaim,
  Pod,
  StorageClass,
  VolumeAttachment,
} from "../../src/contracts/kubernetes/resources.ts";
import { API_VERSION, LOCAL_DRIVER, SELECTED_NODE, SPAN_DRIVER, TOPOLOGY_NODE } from "../../src/contracts/names.ts";
import { createLedger, type Ledger } from "../../src/extender/apply/ledger.ts";
import { createProjections } from "../../src/extender/gather/caches.ts";
import { type ClusterStores, createClusterStores, type KindsRead } from "../../src/extender/gather/cluster-stores.ts";
import { type ClusterView, createClusterView } from "../../src/extender/gather/cluster-view.ts";
import { createPlacement, type Placement, type PlacementSettings } from "../../src/extender/place-pods.ts";
import type { Store } from "../../src/platform/kube/cache/store.ts";
import type { Keep } from "../../src/platform/kube/client/client.ts";

export const SETTINGS: PlacementSettings = {
  offeredNodes: 32,
  weights: { free: 2, growth: 1, io: 1 },
  divisors: new Map(),
  defaultDivisor: 1,
};
export const HOLD_LIMIT_MS = 60_000;
export const MEMBER_DRIVER = "disks.example.com";
export const NOW_MS = Date.parse("2026-11-20T12:00:00Z");

export interface Fleet {
  readonly stores: ClusterStores;
  readonly view: ClusterView;
  readonly ledger: Ledger;
  readonly placement: Placement;
  nowMs: number;
  put<K extends keyof KindsRead>(kind: K, object: KindsRead[K]): void;
  remove<K extends keyof KindsRead>(kind: K, key: string): void;
}

export function createFleet(settings: Partial<PlacementSettings> = {}, ledger = createLedger(HOLD_LIMIT_MS)): Fleet {
  const stores = createClusterStores();
  const keep = createProjections();
  // The checker sees a union of stores where the kind is a parameter.
  const storeOf = <K extends keyof KindsRead>(kind: K) => stores[kind] as Store<KindsRead[K]>;
  const view = createClusterView(stores, ledger, () => fleet.nowMs);
  const fleet: Fleet = {
    stores,
    view,
    ledger,
    placement: createPlacement(view, ledger, { ...SETTINGS, ...settings }),
    nowMs: NOW_MS,
    put: (kind, object) => {
      // As the caches do: whatever is decided is decided on what they keep.
      const kept = (keep[kind] as Keep<typeof object>)(object);
      if (kept === undefined) return;
      const before = storeOf(kind).put(kept);
      view.changed(kind, kept, before);
    },
    remove: (kind, key) => {
      const before = storeOf(kind).remove(key);
      if (before !== undefined) view.changed(kind, before);
    },
  };
  return fleet;
}

export interface NodeFields {
  readonly free?: string;
  readonly size?: string;
  readonly deviceClass?: string;
  readonly labels?: Record<string, string>;
  readonly cordoned?: boolean;
  readonly slots?: number;
  readonly ioUtilization?: number;
  readonly storage?: NodeStorage["status"] | null;
  readonly drivers?: readonly string[];
}

/** A node with the default device class "ssd" of 100Gi, all free, and no limit on attachments. */
export function addNode(fleet: Fleet, name: string, fields: NodeFields = {}): void {
  fleet.put("nodes", buildNode(name, fields));
  fleet.put("csiNodes", buildCsiNode(name, fields));
  if (fields.storage !== null) fleet.put("nodeStorages", buildNodeStorage(name, fields));
}

export function buildNode(name: string, { labels, cordoned }: NodeFields = {}): Node {
  const metadata = { name, uid: `node-${name}`, labels: { [TOPOLOGY_NODE]: name, ...labels } };
  return { apiVersion: "v1", kind: "Node", metadata, spec: cordoned === true ? { unschedulable: true } : {} };
}

export function buildCsiNode(
  name: string,
  { slots, drivers = [LOCAL_DRIVER, SPAN_DRIVER, MEMBER_DRIVER] }: NodeFields = {},
): CSINode {
  const allocatable = slots === undefined ? {} : { allocatable: { count: slots } };
  return {
    apiVersion: "storage.k8s.io/v1",
    kind: "CSINode",
    metadata: { name, uid: `csi-${name}` },
    spec: {
      drivers: drivers.map((driver) => ({
        name: driver,
        nodeID: name,
        ...(driver === MEMBER_DRIVER ? allocatable : {}),
      })),
    },
  };
}

export function buildNodeStorage(
  name: string,
  { free = "100Gi", size = "100Gi", deviceClass = "ssd", ioUtilization, storage }: NodeFields = {},
): NodeStorage {
  const ofClass = { name: deviceClass, backend: "lvm" as const, free, size, default: true };
  const status = storage ?? { deviceClasses: [ofClass], ...(ioUtilization === undefined ? {} : { ioUtilization }) };
  return { apiVersion: API_VERSION, kind: "NodeStorage", metadata: { name, uid: `storage-${name}` }, status };
}

export function buildClass(name: string, parameters: Record<string, string>, provisioner = LOCAL_DRIVER): StorageClass {
  return { apiVersion: "storage.k8s.io/v1", kind: "StorageClass", metadata: { name }, provisioner, parameters };
}

/** The classes "lvm", "loop", "span" of members of the class "disks", and "other" of another driver. */
export function addClasses(fleet: Fleet): void {
  const span = { backend: "span", memberStorageClassName: "disks" };
  fleet.put("storageClasses", buildClass("lvm", { backend: "lvm" }));
  fleet.put("storageClasses", buildClass("lvm-ssd", { backend: "lvm", deviceClass: "ssd" }));
  fleet.put("storageClasses", buildClass("lvm-small", { backend: "lvm", initialSize: "1Gi" }));
  fleet.put("storageClasses", buildClass("loop", { backend: "loop" }));
  fleet.put("storageClasses", buildClass("span", span, SPAN_DRIVER));
  fleet.put("storageClasses", buildClass("disks", {}, MEMBER_DRIVER));
  fleet.put("storageClasses", buildClass("other", {}, "other.example.com"));
}

/** A UID that says which object it is of. */
export function uidOf(index: number): string {
  return `00000000-0000-4000-8000-${String(index).padStart(12, "0")}`;
}

export interface ClaimFields {
  readonly storageClassName?: string;
  readonly request?: string;
  readonly selectedNode?: string;
  readonly volumeName?: string;
  readonly ownedBy?: string;
}

/** Claim "claim-INDEX" of 10Gi of the class "lvm" in the namespace "shop". */
export function buildClaim(index: number, fields: ClaimFields = {}): PersistentVolumeClaim {
  const { storageClassName = "lvm", request = "10Gi", selectedNode, volumeName, ownedBy } = fields;
  const owner = { apiVersion: "v1", kind: "Pod", name: "any", uid: ownedBy ?? "", controller: true };
  return {
    apiVersion: "v1",
    kind: "PersistentVolumeClaim",
    metadata: {
      namespace: "shop",
      name: `claim-${index}`,
      uid: uidOf(index),
      ...(selectedNode === undefined ? {} : { annotations: { [SELECTED_NODE]: selectedNode } }),
      ...(ownedBy === undefined ? {} : { ownerReferences: [owner] }),
    },
    spec: {
      storageClassName,
      resources: { requests: { storage: request } },
      ...(volumeName === undefined ? {} : { volumeName }),
    },
  };
}

/** Pod "pod-INDEX" of the namespace "shop" with these claims, by default the one of its own index. */
export function buildPod(index: number, claims: readonly string[] = [`claim-${index}`], nodeName?: string): Pod {
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { namespace: "shop", name: `pod-${index}`, uid: `pod-uid-${index}` },
    spec: {
      containers: [],
      volumes: claims.map((claimName) => ({ name: claimName, persistentVolumeClaim: { claimName } })),
      ...(nodeName === undefined ? {} : { nodeName }),
    },
  };
}

export function buildLogicalVolume(
  index: number,
  nodeName: string,
  fields: { readonly size?: string; readonly isMade?: boolean; readonly createdMs?: number } = {},
): LogicalVolume {
  const { size = "10Gi", isMade = false, createdMs = NOW_MS } = fields;
  const creationTimestamp = new Date(createdMs).toISOString();
  return {
    apiVersion: API_VERSION,
    kind: "LogicalVolume",
    metadata: { name: `fs-${uidOf(index)}`, uid: `lv-${index}`, creationTimestamp },
    spec: { nodeName, deviceClass: "ssd", size },
    status: isMade ? { volumeID: `lv-${index}`, currentSize: size } : {},
  };
}

/**
 * The filesystem of volume INDEX, so large, in the class "ssd" of the node. `targetGiB`: an extend to it is decided, and has ended where it
 * is as large.
 */
export function buildLocalLayout(index: number, nodeName: string, gibibytes: number, targetGiB = gibibytes) {
  const at = new Date(NOW_MS).toISOString();
  const [size, to] = [`${gibibytes}Gi`, `${targetGiB}Gi`];
  const operation = { kind: "Extend" as const, from: "1Gi", to, epoch: 1, decidedAt: at, startedAt: at };
  const logicalVolume = { name: `fs-${uidOf(index)}`, volumeID: `lv-${index}`, deviceClass: "ssd" };
  const layout: FilesystemLayout = {
    apiVersion: API_VERSION,
    kind: "FilesystemLayout",
    metadata: { name: `fs-${uidOf(index)}`, uid: `layout-${index}` },
    spec: {
      backend: "lvm",
      nodeName,
      members: [{ name: "m0", size, source: { logicalVolume } }],
      target: { size: to, from: "1Gi", epoch: 1, decidedAt: at },
    },
    status: {
      nodeName,
      members: [{ name: "m0", size, state: "Present" }],
      ...(targetGiB > gibibytes
        ? {}
        : { lastOperation: { ...operation, outcome: "Succeeded", reached: size, endedAt: at } }),
    },
  };
  return layout;
}

export function buildSpanLayout(index: number, members: number, states: Record<string, MemberSpec["state"]> = {}) {
  const layout: FilesystemLayout = {
    apiVersion: API_VERSION,
    kind: "FilesystemLayout",
    metadata: { name: `fs-${uidOf(index)}`, uid: `layout-${index}` },
    spec: {
      backend: "span",
      members: Array.from({ length: members }, (_, member) => ({
        name: `m${member}`,
        size: "10Gi",
        state: states[`m${member}`] ?? "Present",
        source: { claim: { name: `c${member}`, volumeName: `pv-${index}-m${member}`, driver: MEMBER_DRIVER } },
      })),
    },
  };
  return layout;
}

/** A bound span: claim, its PersistentVolume, its layout, and those of its members. */
export function addSpan(fleet: Fleet, index: number, members: number, zone?: string): void {
  fleet.put("claims", buildClaim(index, { storageClassName: "span", volumeName: `pv-${index}` }));
  fleet.put("volumes", buildVolume(`pv-${index}`, SPAN_DRIVER, `fs-${uidOf(index)}`));
  fleet.put("layouts", buildSpanLayout(index, members));
  for (let member = 0; member < members; member += 1) {
    const name = `pv-${index}-m${member}`;
    const volume = buildVolume(name, MEMBER_DRIVER, name, zone === undefined ? undefined : { zone });
    volume.metadata.labels = { "tidemark.dev/volume-uid": uidOf(index) };
    fleet.put("volumes", volume);
  }
}

export function buildVolume(
  name: string,
  driver: string,
  volumeHandle: string,
  labels?: Record<string, string>,
): PersistentVolume {
  const matchExpressions = Object.entries(labels ?? {}).map(([key, value]) => ({
    key,
    operator: "In",
    values: [value],
  }));
  return {
    apiVersion: "v1",
    kind: "PersistentVolume",
    metadata: { name, uid: `uid-${name}` },
    spec: {
      csi: { driver, volumeHandle },
      ...(labels === undefined ? {} : { nodeAffinity: { required: { nodeSelectorTerms: [{ matchExpressions }] } } }),
    },
  };
}

export function buildAttachment(volumeName: string, nodeName: string, attacher = MEMBER_DRIVER): VolumeAttachment {
  return {
    apiVersion: "storage.k8s.io/v1",
    kind: "VolumeAttachment",
    metadata: { name: `${volumeName}-at-${nodeName}`, uid: `va-${volumeName}-${nodeName}` },
    spec: { attacher, nodeName, source: { persistentVolumeName: volumeName } },
  };
}

export function agentPod(nodeName: string, ready: "True" | "False" | "Unknown", sinceMs: number): Pod {
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: {
      namespace: "tidemark-system",
      name: `agent-${nodeName}`,
      uid: `agent-${nodeName}`,
      labels: { "app.kubernetes.io/name": "tidemark", "app.kubernetes.io/component": "agent" },
    },
    spec: { nodeName, containers: [] },
    status: { conditions: [{ type: "Ready", status: ready, lastTransitionTime: new Date(sinceMs).toISOString() }] },
  };
}
