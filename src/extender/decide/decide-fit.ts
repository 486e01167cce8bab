// Whether a node takes a pod's volumes: a list of checks, the first that fails says why. Pure, and quick: it runs for every candidate.
import type { NodeSelectorTerm } from "../../contracts/kubernetes/resources.ts";
import { formatDuration } from "../../contracts/quantities/duration.ts";
import { formatBytes } from "../../contracts/quantities/quantity.ts";
import { matchesTerm, type SelectorTerm } from "../../contracts/schema/label-selector.ts";
import type { ClassDemand, Demand, PlacedVolume } from "./decide-demand.ts";
import { type ClassFacts, classOf, type NodeFacts, type Taken } from "./decide-node.ts";

/** Longer without a word of its agent, and what the node said last counts no more. */
const UNHEARD_LIMIT_MS = 60_000;

export interface TakenOfNode {
  /** By volumes whose place is known. */
  readonly reserved: Taken;
  /** By pods that may be put there or elsewhere at this moment. */
  readonly held: Taken;
}

/** Undefined: it does. `own`: the part of what is reserved there that the demand counts once more. */
export function fitFailureOf(
  demand: Demand,
  node: NodeFacts,
  taken: TakenOfNode,
  own: Taken | undefined,
  nowMs: number,
): FitFailure | undefined {
  if (node.isCordoned && !demand.toleratesCordon) return fitFailure("Cordoned");
  for (const driver of demand.drivers) if (!node.drivers.has(driver)) return fitFailure("NoDriver", driver);
  for (const volume of demand.placed) if (!isInReach(volume, node)) return fitFailure("OutOfReach", volume.name);
  return fitFailureOfRoom(demand, node, taken, own, nowMs) ?? fitFailureOfSlots(demand, node, taken, own);
}

function fitFailure(reason: FitFailureReason, subject = "", needed = 0, has = 0): FitFailure {
  return { reason, subject, needed, has };
}

function fitFailureOfRoom(
  { classes }: Demand,
  node: NodeFacts,
  taken: TakenOfNode,
  own: Taken | undefined,
  nowMs: number,
): FitFailure | undefined {
  if (classes.every(({ madeAt }) => madeAt === node.name)) return undefined;
  if (node.classes === undefined) return fitFailure("NotReported");
  if (isUnheard(node, nowMs)) return fitFailure("AgentNotReady", "", UNHEARD_LIMIT_MS);
  for (const demand of classes) {
    if (demand.madeAt === node.name) continue;
    const found = classOf(node, demand);
    if (found === undefined) return fitFailure("NoDeviceClass", describeWanted(demand));
    if (found.problem !== undefined)
      return fitFailure("DeviceClassProblem", `${describeClass(found)}: ${found.problem}`);
    if (found.freeBytes === undefined) return fitFailure("UnreadableCapacity", describeClass(found));
    const neededBytes = neededOf(classes, node, found);
    const roomBytes = roomOf(found, found.freeBytes, taken, own);
    if (neededBytes > roomBytes) return fitFailure("NoSpace", describeClass(found), neededBytes, roomBytes);
    const leftBytes = roomBytes - (taken.held.bytes.get(found.key) ?? 0);
    if (neededBytes > leftBytes) return fitFailure("BeingPlaced", describeClass(found), neededBytes, leftBytes);
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

function fitFailureOfSlots(
  { slots }: Demand,
  node: NodeFacts,
  taken: TakenOfNode,
  own: Taken | undefined,
): FitFailure | undefined {
  if (slots.length === 0) return undefined;
  for (const driver of new Set(slots.map((slot) => slot.driver))) {
    const limit = node.drivers.get(driver);
    if (limit === undefined) continue;
    const needed = slots.filter((slot) => slot.driver === driver && !slot.attachedAt.includes(node.name)).length;
    const reserved = (taken.reserved.slots.get(driver) ?? 0) - (own?.slots.get(driver) ?? 0);
    const held = taken.held.slots.get(driver) ?? 0;
    const left = limit - (node.attached.get(driver) ?? 0) - reserved - held;
    if (needed > 0 && needed > left) return fitFailure("NoSlots", driver, needed, left);
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

// Why a node does not take a pod, and the sentence that a user reads of it in `kubectl describe pod`. The scheduler adds up nodes of the
// same sentence ("3 ..., 2 ..."). So all nodes that lack the same get one sentence, with the most that any of them has. Pure.

export type FitFailureReason =
  | "UnknownNode"
  | "Cordoned"
  | "NoDriver"
  | "OutOfReach"
  | "NotReported"
  | "AgentNotReady"
  | "NoDeviceClass"
  | "DeviceClassProblem"
  | "UnreadableCapacity"
  | "NoSpace"
  | "BeingPlaced"
  | "NoSlots";

export interface FitFailure {
  readonly reason: FitFailureReason;
  /** The device class, driver or volume that it is about. */
  readonly subject: string;
  /** Bytes, slots or milliseconds that the pod needs; 0 where nothing is counted. */
  readonly needed: number;
  /** The same of what the node has. */
  readonly has: number;
}

/**
 * FailedAndUnresolvableNodes of the scheduler, else FailedNodes. It never evicts a pod for what is refused here: to see whether an eviction
 * helps it asks its own plugins, which had nothing against the node, and there is no /preempt. The difference decides about the pod that it
 * has evicted others for and promised the node. While those leave, a resolvable reason lets the pod wait for that node, without an eviction
 * elsewhere; so reasons that pass with them, or by themselves, are not unresolvable.
 */
export function isUnresolvable({ reason }: FitFailure): boolean {
  return reason !== "NoSlots" && reason !== "BeingPlaced";
}

/** FitFailures of the same key have the same sentence. */
export function fitFailureKey({ reason, subject, needed }: FitFailure): string {
  return `${reason} ${needed} ${subject}`;
}

/** `most`: the most that any node has of it; `count`: how many nodes it is. */
export function fitFailureSentence({ reason, subject, needed }: FitFailure, most: number, count: number): string {
  const each = count === 1 ? "here" : "on each of these nodes";
  switch (reason) {
    case "UnknownNode":
      return "the node is unknown to Tidemark: it was just added, or is gone";
    case "Cordoned":
      return "the node is cordoned";
    case "NoDriver":
      return `CSI driver ${subject} is not registered on the node; check that the Tidemark agent runs there`;
    case "OutOfReach":
      return `volume ${subject} cannot be used on the node`;
    case "NotReported":
      return "the node has not reported its capacity yet (NodeStorage)";
    case "AgentNotReady":
      return `the Tidemark agent of the node has not been ready for more than ${formatDuration(needed)}; its capacity report is stale`;
    case "NoDeviceClass":
      return `the node has no ${subject}`;
    case "DeviceClassProblem":
      return `cannot create volumes in ${subject}`;
    case "UnreadableCapacity":
      return `NodeStorage reports an invalid free size for ${subject}`;
    case "NoSpace":
      return `${subject}: ${formatBytes(needed)} needed, ${most <= 0 ? "nothing" : `at most ${formatBytes(most)}`} free ${each}`;
    case "BeingPlaced":
      return `${subject}: ${formatBytes(needed)} needed, at most ${formatBytes(Math.max(0, most))} free ${each} while other pods are being placed; retrying`;
    case "NoSlots":
      return `${subject}: ${needed} volumes to attach, at most ${Math.max(0, most)} attach slots left ${each}`;
  }
}
