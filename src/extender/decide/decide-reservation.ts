// What a volume whose place is known takes of its node while the node's own figures do not show it yet. Pure: two replicas, and one that
// has just been started, find the same from the same objects.
import type { FilesystemLayout, MemberSpec } from "../../contracts/kinds/filesystem-layout.ts";
import type { LogicalVolume } from "../../contracts/kinds/logical-volume.ts";
import type { PersistentVolumeClaim, Pod } from "../../contracts/kubernetes/resources.ts";
import { SELECTED_NODE } from "../../contracts/names.ts";
import { readQuantity } from "../../contracts/quantities/quantity.ts";
import type { ClassDemand, SlotDemand } from "./decide-demand.ts";
import { classKey, classOfLayout, type NodeFacts, nothingTaken, type Taken } from "./decide-node.ts";

export interface VolumeObjects {
  readonly claim: PersistentVolumeClaim | undefined;
  readonly logicalVolume: LogicalVolume | undefined;
  readonly layout: FilesystemLayout | undefined;
  /** Pods that use the claim. */
  readonly pods: readonly Pod[];
  /** Of the claim, as for a pod that has only it; undefined: it takes nothing that we count, or it is unknown. */
  readonly demand: { readonly classes: readonly ClassDemand[]; readonly slots: readonly SlotDemand[] } | undefined;
}

export interface Reservation {
  readonly nodeName: string;
  readonly taken: Taken;
  /** The node has made it: its figures show it soon, and then it takes nothing more. */
  readonly isMade: boolean;
  /** The claim alone says so: its making has not started. */
  readonly isPromise: boolean;
}

/** `keyOf`: the class of a node that a demand means, since the default one is the node's to say. */
export function reservationOf(
  objects: VolumeObjects,
  keyOf: (nodeName: string, demand: ClassDemand) => string,
): Reservation | undefined {
  if (isGivenUp(objects)) return undefined;
  return ofLogicalVolume(objects) ?? ofLoopFile(objects) ?? ofClaim(objects, keyOf);
}

/**
 * Its node has said that it cannot make it, and does not try again: an agent's code means that alone. An older generation's does not count.
 */
function isGivenUp({ logicalVolume }: VolumeObjects): boolean {
  if (logicalVolume === undefined || isMadeVolume(logicalVolume)) return false;
  const { observedGeneration, code } = logicalVolume.status ?? {};
  const isOfThis = observedGeneration === undefined || observedGeneration === logicalVolume.metadata.generation;
  return code !== undefined && isOfThis;
}

/** The node that has made the volume; undefined: none has yet. */
export function madeAt({ logicalVolume, layout }: Pick<VolumeObjects, "logicalVolume" | "layout">): string | undefined {
  if (logicalVolume !== undefined) return isMadeVolume(logicalVolume) ? logicalVolume.spec.nodeName : undefined;
  const [member] = layout?.spec.members ?? [];
  return member?.source.loop !== undefined && isReported(layout, member) ? layout?.spec.nodeName : undefined;
}

function isMadeVolume({ spec, status }: LogicalVolume): boolean {
  return (spec.volumeID ?? status?.volumeID) !== undefined;
}

function isReported(layout: FilesystemLayout | undefined, { name }: MemberSpec): boolean {
  return layout?.status?.members?.some((member) => member.name === name) === true;
}

function ofLogicalVolume({ logicalVolume }: VolumeObjects): Reservation | undefined {
  if (logicalVolume === undefined || logicalVolume.spec.state === "Removed") return undefined;
  const { spec, status } = logicalVolume;
  // One that is there already was never asked for; a copy in a thin pool is as large as it says all the same.
  const bytes = readQuantity(status?.currentSize ?? spec.size);
  if (spec.volumeID !== undefined || bytes === undefined) return undefined;
  const taken = takenBytes(classKey("lvm", spec.deviceClass), bytes);
  return { nodeName: spec.nodeName, taken, isMade: isMadeVolume(logicalVolume), isPromise: false };
}

function ofLoopFile({ layout }: VolumeObjects): Reservation | undefined {
  const [member] = layout?.spec.members ?? [];
  const nodeName = layout?.spec.nodeName;
  const key = layout === undefined ? undefined : classOfLayout(layout);
  if (member?.source.loop === undefined || member.state === "Removed" || !nodeName || key === undefined)
    return undefined;
  const bytes = readQuantity(member.size);
  return bytes === undefined
    ? undefined
    : { nodeName, taken: takenBytes(key, bytes), isMade: isReported(layout, member), isPromise: false };
}

function ofClaim(
  { claim, layout, pods, demand }: VolumeObjects,
  keyOf: (nodeName: string, demand: ClassDemand) => string,
): Reservation | undefined {
  if (claim === undefined || demand === undefined || claim.metadata.deletionTimestamp !== undefined) return undefined;
  const isBound = claim.spec.volumeName !== undefined && claim.spec.volumeName !== "";
  const selected = isBound ? layout?.spec.nodeName : claim.metadata.annotations?.[SELECTED_NODE];
  const nodeNames = nodesOfPods(pods);
  for (const nodeName of nodeNames.length > 0 ? nodeNames : listed(selected)) {
    const taken = takenAt(nodeName, demand, (one) => keyOf(nodeName, one));
    if (taken.bytes.size > 0 || taken.slots.size > 0) return { nodeName, taken, isMade: false, isPromise: !isBound };
  }
  return undefined;
}

/** Where the scheduler has put pods that need the volume, or wants to. */
function nodesOfPods(pods: readonly Pod[]): readonly string[] {
  // One that is being deleted is on its way out of where it was; its successor may be elsewhere.
  const live = pods.filter(isLive);
  const bound = live.flatMap(({ spec }) => listed(spec.nodeName));
  return bound.length > 0 ? bound : live.flatMap(({ status }) => listed(status?.nominatedNodeName));
}

/** A pod that is there needs the volume, wherever it is to be: a claim alone may name any node, since its owner can write that there. */
export function isWanted({ pods }: Pick<VolumeObjects, "pods">): boolean {
  return pods.some(isLive);
}

/** Whether the node has as much at all, whatever else is promised there: what it cannot give takes nothing of it. */
export function canHave({ classes, drivers, attached }: NodeFacts, { bytes, slots }: Taken): boolean {
  const slotsOf = (driver: string): number =>
    (drivers.get(driver) ?? Number.POSITIVE_INFINITY) - (attached.get(driver) ?? 0);
  return (
    [...bytes].every(([key, amount]) => amount <= (classes?.get(key)?.freeBytes ?? 0)) &&
    [...slots].every(([driver, amount]) => amount <= slotsOf(driver))
  );
}

function isLive(pod: Pod): boolean {
  return pod.metadata.deletionTimestamp === undefined && !hasEnded(pod);
}

function listed(name: string | undefined): readonly string[] {
  return name ? [name] : [];
}

export function hasEnded({ status }: Pod): boolean {
  return status?.phase === "Succeeded" || status?.phase === "Failed";
}

/** What a demand takes of a node. */
export function takenAt(
  nodeName: string,
  { classes, slots }: NonNullable<VolumeObjects["demand"]>,
  keyOf: (demand: ClassDemand) => string,
): Taken {
  const taken = nothingTaken();
  for (const demand of classes) if (demand.madeAt !== nodeName) add(taken.bytes, keyOf(demand), demand.bytes);
  for (const { driver, attachedAt } of slots) if (!attachedAt.includes(nodeName)) add(taken.slots, driver, 1);
  return taken;
}

function add(sum: Map<string, number>, key: string, amount: number): void {
  sum.set(key, (sum.get(key) ?? 0) + amount);
}

function takenBytes(key: string, bytes: number): Taken {
  return { bytes: new Map([[key, bytes]]), slots: new Map() };
}
