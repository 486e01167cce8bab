// Why a node does not take a pod, and the sentence that a user reads of it in `kubectl describe pod`. The scheduler adds up nodes of the
// same sentence ("3 ..., 2 ..."), so all nodes that lack the same get one, with the most that any of them has. Pure.
import { formatDuration } from "../../units/duration.ts";
import { formatBytes } from "../../units/quantity.ts";

export const MISFIT_REASONS = [
  "UnknownNode",
  "Cordoned",
  "NoDriver",
  "OutOfReach",
  "NotReported",
  "Unheard",
  "NoDeviceClass",
  "DeviceClassProblem",
  "UnreadableCapacity",
  "NoSpace",
  "BeingPlaced",
  "NoSlots",
] as const;
export type MisfitReason = (typeof MISFIT_REASONS)[number];

export interface Misfit {
  readonly reason: MisfitReason;
  /** The device class, driver or volume that it is about. */
  readonly subject: string;
  /** Bytes, slots or milliseconds that the pod needs; 0 where nothing is counted. */
  readonly needed: number;
  /** The same of what the node has. */
  readonly has: number;
}

/**
 * FailedAndUnresolvableNodes of the scheduler, else FailedNodes. It never evicts a pod for what is refused here either way: to see whether an
 * eviction helps it asks its own plugins, which had nothing against the node, and there is no /preempt. What the difference decides is the
 * pod that it has evicted others for already and promised the node: it is kept for that, and evicts nobody elsewhere, while those are
 * leaving; so the reasons that pass with them, or by themselves, are not unresolvable.
 */
export function isUnresolvable({ reason }: Misfit): boolean {
  return reason !== "NoSlots" && reason !== "BeingPlaced";
}

/** Misfits of the same key have the same sentence. */
export function misfitKey({ reason, subject, needed }: Misfit): string {
  return `${reason} ${needed} ${subject}`;
}

/** `most`: the most that any node has of it; `count`: how many nodes it is. */
export function misfitSentence({ reason, subject, needed }: Misfit, most: number, count: number): string {
  const each = count === 1 ? "here" : "on each of these nodes";
  switch (reason) {
    case "UnknownNode":
      return "Tidemark does not know the node: it has just been added, or is gone";
    case "Cordoned":
      return "the node is cordoned";
    case "NoDriver":
      return `the node has not registered the CSI driver ${subject}: is the Tidemark agent running there?`;
    case "OutOfReach":
      return `volume ${subject} cannot be used on the node`;
    case "NotReported":
      return "the node has not reported yet what it has for volumes (NodeStorage)";
    case "Unheard":
      return `the Tidemark agent of the node has not been heard for more than ${formatDuration(needed)}: what it said of its free space is stale`;
    case "NoDeviceClass":
      return `the node has no ${subject}`;
    case "DeviceClassProblem":
      return `nothing can be made in ${subject}`;
    case "UnreadableCapacity":
      return `what the node reports as free in ${subject} is no size`;
    case "NoSpace":
      return `${subject}: ${formatBytes(needed)} needed, ${most <= 0 ? "nothing" : `at most ${formatBytes(most)}`} free ${each}`;
    case "BeingPlaced":
      return `${subject}: ${formatBytes(needed)} needed, at most ${formatBytes(Math.max(0, most))} free ${each} while other pods are being placed; it is tried again`;
    case "NoSlots":
      return `${subject}: ${needed} volumes to attach, at most ${Math.max(0, most)} attach slots left ${each}`;
  }
}
