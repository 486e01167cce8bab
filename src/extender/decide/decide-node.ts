// The facts of one node, from the objects that tell of it. Pure. What cannot be read is said to be so, and never taken for 0 or for
// plenty.
import type { FilesystemLayout, OwnBackend } from "../../api/filesystem-layout.ts";
import type { NodeStorage } from "../../api/node-storage.ts";
import type { CSINode, Node, Pod, VolumeAttachment } from "../../kube/resources.ts";
import { readQuantity } from "../../units/quantity.ts";
import { type ClassFacts, classKey, type NodeFacts } from "./node-facts.ts";

export interface NodeObjects {
  readonly node: Node;
  readonly storage: NodeStorage | undefined;
  readonly csiNode: CSINode | undefined;
  /** To this node. */
  readonly attachments: readonly VolumeAttachment[];
  /** Of filesystems on this node. */
  readonly layouts: readonly FilesystemLayout[];
  /** Since when the node's agent is not heard. */
  readonly unheardSinceMs: number | undefined;
}

export function nodeFactsOf(objects: NodeObjects, nowMs: number): NodeFacts {
  const { node, storage, csiNode, attachments, layouts, unheardSinceMs } = objects;
  const attached = new Map<string, number>();
  for (const { spec } of attachments) attached.set(spec.attacher, (attached.get(spec.attacher) ?? 0) + 1);
  const { ioUtilization } = storage?.status ?? {};
  const classes = classesOf(storage, growthOf(layouts, nowMs));
  return {
    name: node.metadata.name,
    labels: node.metadata.labels ?? {},
    isCordoned: node.spec?.unschedulable === true || node.metadata.deletionTimestamp !== undefined,
    drivers: new Map((csiNode?.spec.drivers ?? []).map(({ name, allocatable }) => [name, allocatable?.count])),
    attached,
    classes,
    defaults: defaultsOf(classes),
    ioUtilizationRatio:
      ioUtilization !== undefined && ioUtilization >= 0 && ioUtilization <= 100 ? ioUtilization / 100 : undefined,
    unheardSinceMs,
  };
}

function classesOf(
  storage: NodeStorage | undefined,
  growth: ReadonlyMap<string, number>,
): ReadonlyMap<string, ClassFacts> | undefined {
  const reported = storage?.status?.deviceClasses;
  if (reported === undefined) return undefined;
  return new Map(
    reported.map(({ name, backend, free, size, default: isDefault = false, problem }) => {
      const key = classKey(backend, name);
      const [freeBytes, sizeBytes] = [free, size].map(readQuantity);
      const facts = { key, backend, name, freeBytes, sizeBytes, isDefault, problem, growthBytes: growth.get(key) ?? 0 };
      return [key, facts] as const;
    }),
  );
}

/** Loop has one class, which needs no mark. */
function defaultsOf(classes: ReadonlyMap<string, ClassFacts> | undefined): NodeFacts["defaults"] {
  const defaults: Partial<Record<OwnBackend, ClassFacts>> = {};
  for (const one of classes?.values() ?? []) if (one.isDefault || one.backend !== "lvm") defaults[one.backend] ??= one;
  return defaults;
}

/**
 * Bytes that filesystems of the node will take of its classes beside what they have, by classKey: every extend that is decided and not
 * carried out yet, and of the emergencies that are granted in advance the largest one, so that any one of them can be met.
 */
export function growthOf(layouts: readonly FilesystemLayout[], nowMs: number): Map<string, number> {
  const decided = new Map<string, number>();
  const emergency = new Map<string, number>();
  for (const layout of layouts) {
    const key = classOfLayout(layout);
    const presentBytes = presentBytesOf(layout);
    if (key === undefined || presentBytes === undefined) continue;
    const targetBytes = Math.max(presentBytes, decidedBytes(layout) ?? 0);
    decided.set(key, (decided.get(key) ?? 0) + targetBytes - presentBytes);
    const beyond = (grantedBytes(layout, nowMs) ?? 0) - targetBytes;
    emergency.set(key, Math.max(emergency.get(key) ?? 0, beyond));
  }
  for (const [key, bytes] of emergency) decided.set(key, (decided.get(key) ?? 0) + bytes);
  return decided;
}

/** Undefined: its members are not the node's own. */
export function classOfLayout({ spec }: FilesystemLayout): string | undefined {
  const source = spec.members?.[0]?.source;
  if (source?.loop !== undefined) return classKey("loop", "loop");
  return source?.logicalVolume === undefined ? undefined : classKey("lvm", source.logicalVolume.deviceClass);
}

/** Undefined: none is there, or what it says is no size. */
export function presentBytesOf({ status }: FilesystemLayout): number | undefined {
  const sizes = (status?.members ?? [])
    .filter(({ state }) => state === "Present")
    .map(({ size }) => readQuantity(size));
  let sum = 0;
  for (const bytes of sizes) {
    if (bytes === undefined) return undefined;
    sum += bytes;
  }
  return sizes.length === 0 ? undefined : sum;
}

/** A target is carried out once at most: what has ended needs nothing more. */
function decidedBytes({ spec, status }: FilesystemLayout): number | undefined {
  if (spec.target === undefined || status?.lastOperation?.decidedAt === spec.target.decidedAt) return undefined;
  return readQuantity(spec.target.size);
}

function grantedBytes({ spec: { emergency } }: FilesystemLayout, nowMs: number): number | undefined {
  return emergency === undefined || Date.parse(emergency.expiry) <= nowMs ? undefined : readQuantity(emergency.size);
}

/**
 * Since when the agent of a node is not heard, by what kubelet and the control plane say of its pod: a NodeStorage is written on change
 * only, so its own age says nothing. Undefined: it is heard.
 */
export function unheardSince(agent: Pod): number | undefined {
  const ready = agent.status?.conditions?.find(({ type }) => type === "Ready");
  if (ready?.status === "True") return undefined;
  const sinceMs = Date.parse(ready?.lastTransitionTime ?? agent.metadata.creationTimestamp ?? "");
  return Number.isNaN(sinceMs) ? 0 : sinceMs;
}
