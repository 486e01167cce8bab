// Whether a node takes a pod's volumes: a list of checks, the first that fails says why. Pure, and quick: it runs for every candidate.
import { matchesTerm, type SelectorTerm } from "../../api/label-selector.ts";
import type { NodeSelectorTerm } from "../../kube/resources.ts";
import type { ClassDemand, Demand, PlacedVolume } from "./demand.ts";
import type { Misfit, MisfitReason } from "./misfit.ts";
import { type ClassFacts, classOf, type NodeFacts, type Taken } from "./node-facts.ts";

/** Longer without a word of its agent, and what the node said last counts no more. */
export const UNHEARD_LIMIT_MS = 60_000;

export interface TakenOfNode {
  /** By volumes whose place is known. */
  readonly reserved: Taken;
  /** By pods that may be put there or elsewhere at this moment. */
  readonly held: Taken;
}

/** Undefined: it does. `own`: the part of what is reserved there that the demand counts once more. */
export function misfitOf(
  demand: Demand,
  node: NodeFacts,
  taken: TakenOfNode,
  own: Taken | undefined,
  nowMs: number,
): Misfit | undefined {
  if (node.isCordoned && !demand.toleratesCordon) return misfit("Cordoned");
  for (const driver of demand.drivers) if (!node.drivers.has(driver)) return misfit("NoDriver", driver);
  for (const volume of demand.placed) if (!isInReach(volume, node)) return misfit("OutOfReach", volume.name);
  return misfitOfRoom(demand, node, taken, own, nowMs) ?? misfitOfSlots(demand, node, taken, own);
}

function misfit(reason: MisfitReason, subject = "", needed = 0, has = 0): Misfit {
  return { reason, subject, needed, has };
}

function misfitOfRoom(
  { classes }: Demand,
  node: NodeFacts,
  taken: TakenOfNode,
  own: Taken | undefined,
  nowMs: number,
): Misfit | undefined {
  if (classes.every(({ madeAt }) => madeAt === node.name)) return undefined;
  if (node.classes === undefined) return misfit("NotReported");
  if (isUnheard(node, nowMs)) return misfit("Unheard", "", UNHEARD_LIMIT_MS);
  for (const demand of classes) {
    if (demand.madeAt === node.name) continue;
    const found = classOf(node, demand);
    if (found === undefined) return misfit("NoDeviceClass", describeWanted(demand));
    if (found.problem !== undefined) return misfit("DeviceClassProblem", `${describeClass(found)}: ${found.problem}`);
    if (found.freeBytes === undefined) return misfit("UnreadableCapacity", describeClass(found));
    const neededBytes = neededOf(classes, node, found);
    const roomBytes = roomOf(found, found.freeBytes, taken, own);
    if (neededBytes > roomBytes) return misfit("NoSpace", describeClass(found), neededBytes, roomBytes);
    const leftBytes = roomBytes - (taken.held.bytes.get(found.key) ?? 0);
    if (neededBytes > leftBytes) return misfit("BeingPlaced", describeClass(found), neededBytes, leftBytes);
  }
  return undefined;
}

export function isUnheard({ unheardSinceMs }: NodeFacts, nowMs: number): boolean {
  return unheardSinceMs !== undefined && nowMs - unheardSinceMs > UNHEARD_LIMIT_MS;
}

/** Of all the pod's claims together that end in this class of the node: one may name it, another mean it as the default. */
export function neededOf(classes: readonly ClassDemand[], node: NodeFacts, found: ClassFacts): number {
  let bytes = 0;
  for (const demand of classes)
    if (demand.madeAt !== node.name && classOf(node, demand) === found) bytes += demand.bytes;
  return bytes;
}

/** What is left for the pod, before pods that are being placed. */
export function roomOf(
  { key, growthBytes }: ClassFacts,
  freeBytes: number,
  { reserved }: TakenOfNode,
  own: Taken | undefined,
): number {
  const reservedBytes = (reserved.bytes.get(key) ?? 0) - (own?.bytes.get(key) ?? 0);
  return freeBytes - growthBytes - reservedBytes;
}

function describeClass({ backend, name }: ClassFacts): string {
  return backend === "lvm" ? `device class ${name}` : `backend ${backend}`;
}

function describeWanted({ backend, deviceClass }: ClassDemand): string {
  if (backend !== "lvm") return `storage of the backend ${backend}`;
  return deviceClass === undefined ? "default device class" : `device class ${deviceClass}`;
}

function misfitOfSlots(
  { slots }: Demand,
  node: NodeFacts,
  taken: TakenOfNode,
  own: Taken | undefined,
): Misfit | undefined {
  if (slots.length === 0) return undefined;
  for (const driver of new Set(slots.map((slot) => slot.driver))) {
    const limit = node.drivers.get(driver);
    if (limit === undefined) continue;
    const needed = slots.filter((slot) => slot.driver === driver && !slot.attachedAt.includes(node.name)).length;
    const reserved = (taken.reserved.slots.get(driver) ?? 0) - (own?.slots.get(driver) ?? 0);
    const held = taken.held.slots.get(driver) ?? 0;
    const left = limit - (node.attached.get(driver) ?? 0) - reserved - held;
    if (needed > 0 && needed > left) return misfit("NoSlots", driver, needed, left);
  }
  return undefined;
}

function isInReach({ terms }: PlacedVolume, node: NodeFacts): boolean {
  return terms.length === 0 || terms.some((term) => isMet(term, node));
}

/** A term that asks for what is not labels, or compares numbers, is the scheduler's alone to judge. */
function isMet({ matchExpressions = [] }: NodeSelectorTerm, { labels }: NodeFacts): boolean {
  return matchExpressions.every((term) => !isOfLabels(term) || matchesTerm(term, labels));
}

const OPERATORS: readonly string[] = ["In", "NotIn", "Exists", "DoesNotExist"] satisfies SelectorTerm["operator"][];

function isOfLabels(term: Omit<SelectorTerm, "operator"> & { readonly operator: string }): term is SelectorTerm {
  return OPERATORS.includes(term.operator);
}
