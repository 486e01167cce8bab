// How far the resize of an ordinary claim has come, as its own driver's resizer and kubelet tell on the claim. Pure; it says what
// stands there, and decides nothing.
import type { PersistentVolumeClaim } from "../kube/resources.ts";
import { formatBytes, readQuantity } from "../units/quantity.ts";

/** "Infeasible": the driver has said that it cannot; it tries on, seldom. */
export type ResizeStage = "None" | "OnController" | "OnNode" | "Infeasible";

export interface ClaimResize {
  readonly stage: ResizeStage;
  /** What is asked for. */
  readonly requestBytes: number;
  /** What was provided so far. */
  readonly capacityBytes: number;
  /** The driver's or kubelet's own words, where it has any. */
  readonly message: string | undefined;
}

/** Undefined while the claim does not say what it asks for or has: that is never 0. */
export function claimResizeOf({ spec, status }: PersistentVolumeClaim): ClaimResize | undefined {
  const requestBytes = readQuantity(spec.resources?.requests?.storage) || undefined;
  const capacityBytes = readQuantity(status?.capacity?.storage) || undefined;
  if (requestBytes === undefined || capacityBytes === undefined) return undefined;
  const stage = stageOf(status, requestBytes > capacityBytes);
  return { stage, requestBytes, capacityBytes, message: stage === "None" ? undefined : messageOf(status) };
}

/** For people: who cannot do what, in the driver's own words. */
export function infeasibleMessage(
  { requestBytes, capacityBytes, message }: ClaimResize,
  driver: string | undefined,
): string {
  const words = message === undefined ? "" : `: ${message}`;
  return `driver ${driver ?? "unknown"} cannot expand the volume from ${formatBytes(capacityBytes)} to ${formatBytes(requestBytes)}${words}`;
}

type ClaimStatus = PersistentVolumeClaim["status"];

// A request that is not met is a resize under way, whether anybody has taken it up yet or not.
function stageOf(status: ClaimStatus, isAskedFor: boolean): ResizeStage {
  const allocated = status?.allocatedResourceStatuses?.["storage"] ?? "";
  if (allocated.endsWith("Infeasible")) return "Infeasible";
  if (allocated.startsWith("NodeResize") || holds(status, "FileSystemResizePending")) return "OnNode";
  return isAskedFor || allocated !== "" || holds(status, "Resizing") ? "OnController" : "None";
}

function holds(status: ClaimStatus, type: string): boolean {
  return status?.conditions?.some((condition) => condition.type === type && condition.status === "True") ?? false;
}

const CONDITIONS = ["ControllerResizeError", "NodeResizeError", "FileSystemResizePending", "Resizing"];

function messageOf(status: ClaimStatus): string | undefined {
  const messages = CONDITIONS.map((type) => status?.conditions?.find((condition) => condition.type === type)?.message);
  return messages.find((message) => message !== undefined && message !== "");
}
