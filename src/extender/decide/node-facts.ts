// What is known of one node where volumes could be placed, and what of it is taken by volumes that it does not show yet. Plain data;
// who gathers it is gather-objects.ts.
import type { OwnBackend } from "../../api/filesystem-layout.ts";

export interface ClassFacts {
  /** Its classKey. */
  readonly key: string;
  readonly backend: OwnBackend;
  readonly name: string;
  /** What new members can have, less the class' spare; undefined: what the node reports cannot be read. */
  readonly freeBytes: number | undefined;
  /** Of all members together; undefined: nobody can tell. */
  readonly sizeBytes: number | undefined;
  readonly isDefault: boolean;
  /** Why no member can be made there now. */
  readonly problem: string | undefined;
  /** Bytes of freeBytes that filesystems there have been promised already: see growthOf in decide-node.ts. */
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
  /** 0..1 of its busiest disk; undefined: nobody can tell. */
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

/** Adds `sign` times of `part`. What is 0 then stays: the next pod takes the same, and a map that is emptied is made anew. */
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
