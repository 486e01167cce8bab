// What an ordinary claim says of the work of others: how far its own driver's resize has come, and whether another autoscaler raises its
// request. Pure; it decides nothing.
import type { PersistentVolumeClaim } from "./kubernetes/resources.ts";
import { formatBytes, readQuantity } from "./quantities/quantity.ts";

/** "Infeasible": the driver has said that it cannot; it tries on, seldom. */
type ResizeStage = "None" | "OnController" | "OnNode" | "Infeasible";

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

// A request that is not met is a resize under way, even before its driver takes it up.
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

// Two autoscalers that raise one request would undo each other's reasons; ours holds.

interface Autoscaler {
  /** Of its annotations. */
  readonly prefix: string;
  /** The annotation on the claim that makes it leave the claim alone, and the only value that does. */
  readonly leftAloneBy?: readonly [annotation: string, value: string];
  /** On a class: it acts on all of its claims. */
  readonly classAnnotation?: string;
}

const AUTOSCALERS: readonly Autoscaler[] = [
  { prefix: "resize.topolvm.io/" }, // pvc-autoresizer: its class annotation allows it, the claim's limit asks for it
  {
    prefix: "volume.autoscaler.kubernetes.io/", // DevOps-Nirvana's Kubernetes-Volume-Autoscaler
    leftAloneBy: ["volume.autoscaler.kubernetes.io/ignore", "true"],
  },
  { prefix: "pvc.autoscaling.gardener.cloud/" },
  {
    prefix: "trident.netapp.io/autogrowPolicy", // a claim's overrides its class'
    leftAloneBy: ["trident.netapp.io/autogrowPolicy", "none"],
    classAnnotation: "trident.netapp.io/autogrowPolicy",
  },
];

interface Annotated {
  readonly metadata: { readonly annotations?: Readonly<Record<string, string>> | undefined };
}

/** What another autoscaler acts on the claim by, for people: "annotation X", "X of its class"; undefined: none does. */
export function otherAutoscalerOf(claim: Annotated, storageClass: Annotated | undefined): string | undefined {
  const annotations = claim.metadata.annotations ?? {};
  for (const { prefix, leftAloneBy: [key, value] = [], classAnnotation } of AUTOSCALERS) {
    if (key !== undefined && annotations[key] === value) continue;
    const [own] = Object.keys(annotations)
      .filter((name) => name.startsWith(prefix))
      .sort();
    if (own !== undefined) return own;
    const ofClass = storageClass?.metadata.annotations?.[classAnnotation ?? ""];
    if (classAnnotation !== undefined && ofClass !== undefined && ofClass !== value)
      return `${classAnnotation} on its class`;
  }
  return undefined;
}
