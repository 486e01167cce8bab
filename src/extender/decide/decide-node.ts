// The facts of one node, from the objects that describe it. Pure. What cannot be read is said to be so, and never taken for 0 or
// for plenty.
import type { FilesystemLayout, OwnBackend } from "../../contracts/kinds/filesystem-layout.ts";
import type { NodeStorage } from "../../contracts/kinds/node-storage.ts";
import type { CSINode, Node, Pod, VolumeAttachment } from "../../contracts/kubernetes/resources.ts";
import { readQuantity } from "../../contracts/quantities/quantity.ts";

// What is known of one node where volumes could be placed, and what of it is taken by volumes that it does not show yet. Plain data.

export interface ClassFacts {
  /** Its classKey. */
  readonly key: string;
  readonly backend: OwnBackend;
  readonly name: string;
  /** What new members can have, less the class' spare; undefined: what the node reports cannot be read. */
  readonly freeBytes: number | undefined;
  /** Of all members together; undefined: unknown. */
  readonly sizeBytes: number | undefined;
  readonly isDefault: boolean;
  /** Why no member can be made there now. */
  readonly problem: string | undefined;
  /** Bytes of freeBytes that filesystems there have been promised already: see growthOf. */
  readonly growthBytes: number;
}

export interface NodeFacts {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly isCordoned: boolean;
  /** CSI drivers that are registered there, with the volumes that they attach at most; undefined: no limit. */
  readonly drivers: ReadonlyMap<string, number | undefined>;
  /** VolumeAttachments of each driver. */
  readonly attached: ReadonlyMap<string, number>;
  /** By classKey; undefined: its agent has reported nothing yet. */
  readonly classes: ReadonlyMap<string, ClassFacts> | undefined;
  /** Of each backend, where no class is asked for by name. */
  readonly defaults: Readonly<Partial<Record<OwnBackend, ClassFacts>>>;
  /** 0..1 of its busiest disk; undefined: unknown. */
  readonly ioUtilizationRatio: number | undefined;
  /** Since when the node's agent is not heard, so that what it said last may be wrong; undefined: it is. */
  readonly unheardSinceMs: number | undefined;
}

/** A device class on its node: loop has one, which needs no name. */
export function classKey(backend: OwnBackend, name: string): string {
  return `${backend}/${name}`;
}

/** Undefined: the node has no such class. `deviceClass` undefined: the node's default one. */
export function classOf(
  node: NodeFacts,
  { backend, deviceClass }: { readonly backend: OwnBackend; readonly deviceClass: string | undefined },
): ClassFacts | undefined {
  if (backend !== "lvm" || deviceClass === undefined) return node.defaults[backend];
  return node.classes?.get(classKey(backend, deviceClass));
}

/** Of the class that is meant, on a node that may not be known, or not have it. */
export function keyAt(
  node: NodeFacts | undefined,
  demand: { readonly backend: OwnBackend; readonly deviceClass: string | undefined },
): string {
  return (node && classOf(node, demand)?.key) ?? classKey(demand.backend, demand.deviceClass ?? "");
}

/** What volumes take of a node that its own figures do not show yet. */
export interface Taken {
  /** By classKey. */
  readonly bytes: Map<string, number>;
  /** By driver. */
  readonly slots: Map<string, number>;
}

export function nothingTaken(): Taken {
  return { bytes: new Map(), slots: new Map() };
}

/** Adds `sign` times of `part`. What is 0 then stays: the next pod takes the same, and an emptied map would be recreated. */
export function addTaken(sum: Taken, part: Taken, sign: 1 | -1): void {
  addAll(sum.bytes, part.bytes, sign);
  addAll(sum.slots, part.slots, sign);
}

/** Whether nothing is taken, also where something was. */
export function isNothing({ bytes, slots }: Taken): boolean {
  return [bytes, slots].every((amounts) => [...amounts.values()].every((amount) => amount === 0));
}

function addAll(sum: Map<string, number>, part: ReadonlyMap<string, number>, sign: 1 | -1): void {
  for (const [key, amount] of part) sum.set(key, (sum.get(key) ?? 0) + sign * amount);
}

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
 * Bytes that filesystems of the node will take of its classes in addition to what they have, by classKey: every extend that is decided and
 * not carried out yet, and the largest granted emergency, so that any one of them can be met.
 */
function growthOf(layouts: readonly FilesystemLayout[], nowMs: number): Map<string, number> {
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

/** Undefined: no size, or an unreadable one, is there. */
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
