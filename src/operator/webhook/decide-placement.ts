// What a pod gets so that its scheduler asks the extender about it, and the warning for a pod that slipped through.
// Pure. A pod that is marked already is not changed again, and one that has no claims of ours is not touched.

import {
  CAPACITY_ANNOTATION_PREFIX,
  CAPACITY_RESOURCE,
  DEFAULT_SCHEDULER,
  TIDEMARK_SCHEDULER,
} from "../../contracts/names.ts";
import { shortened } from "../../contracts/printable.ts";
import type { AdmittedContainer, AdmittedPod, PatchStep } from "./admission-review.ts";

/** A claim of one of our drivers. */
export interface PlacedClaim {
  readonly className: string;
  /** Of a volume that is still to be provisioned; 0: there is one. */
  readonly bytes: number;
}

export interface PodClaims {
  readonly ours: readonly PlacedClaim[];
  /** Names of claims that do not exist. */
  readonly missing: readonly string[];
}

export type PlacementResult = "Marked" | "AlreadyMarked" | "NotOurs" | "HasNode";

export interface Placement {
  readonly result: PlacementResult;
  readonly patch: readonly PatchStep[];
  /** For the client that creates the pod. */
  readonly warnings: readonly string[];
}

type Annotations = Readonly<Record<string, string>>;

/** Kubernetes' limits: of the part of an annotation's name after the slash, and of all annotations of an object together. */
const NAME_LIMIT_CHARACTERS = 63;
const ANNOTATIONS_LIMIT_BYTES = 262_144;
/** A warning is cut by the API server at 256 characters. */
const NAMED_LIMIT = 2;
const NAME_SHOWN_CHARACTERS = 40;

/** `asking`: the schedulers that ask the extender, TIDEMARK_SCHEDULER always among them. */
export function decidePlacement(pod: AdmittedPod, claims: PodClaims, asking: ReadonlySet<string>): Placement {
  if (pod.spec.nodeName) return { result: "HasNode", patch: [], warnings: [] };
  if (claims.ours.length === 0) return { result: "NotOurs", patch: [], warnings: warningsOf(claims.missing) };
  const schedulerName = schedulerFor(pod, asking);
  const [container] = pod.spec.containers;
  const patch = [
    ...(schedulerName === pod.spec.schedulerName ? [] : [added("/spec/schedulerName", schedulerName)]),
    ...(container === undefined || !asking.has(schedulerName) ? [] : resourceSteps(container)),
    ...annotationSteps(pod.metadata, claims.ours),
  ];
  return { result: patch.length === 0 ? "AlreadyMarked" : "Marked", patch, warnings: [] };
}

const added = (path: string, value: unknown): PatchStep => ({ op: "add", path, value });

/** Replaces only the default scheduler: a user who names another has reasons. */
function schedulerFor({ spec }: AdmittedPod, asking: ReadonlySet<string>): string {
  const schedulerName = spec.schedulerName || DEFAULT_SCHEDULER;
  return schedulerName === DEFAULT_SCHEDULER && !asking.has(DEFAULT_SCHEDULER) ? TIDEMARK_SCHEDULER : schedulerName;
}

/** Not under a scheduler that does not ask: it would look for a node that offers the resource, and there is none. */
function resourceSteps({ resources }: AdmittedContainer): PatchStep[] {
  if (isMarked(resources)) return [];
  const one = { [CAPACITY_RESOURCE]: "1" };
  const marked = {
    ...resources,
    requests: { ...resources?.requests, ...one },
    limits: { ...resources?.limits, ...one },
  };
  return [added("/spec/containers/0/resources", marked)];
}

function isMarked(resources: AdmittedContainer["resources"]): boolean {
  return [resources?.requests, resources?.limits].every((some) => String(some?.[CAPACITY_RESOURCE]) === "1");
}

/** Replaces annotations that a user wrote under our prefix: the claims alone decide what stands there. */
function annotationSteps(metadata: AdmittedPod["metadata"], claims: readonly PlacedClaim[]): PatchStep[] {
  const before: Annotations = metadata?.annotations ?? {};
  const others = Object.entries(before).filter(([name]) => !name.startsWith(CAPACITY_ANNOTATION_PREFIX));
  const requests = Object.entries(requestsOf(claims));
  const after = Object.fromEntries([...others, ...requests]);
  const isSame = sorted(before) === sorted(after);
  // With more the pod would be refused, and for nothing: what decides counts the claims.
  const wanted = sizeOf(after) <= ANNOTATIONS_LIMIT_BYTES ? after : Object.fromEntries(others);
  if (isSame || sorted(wanted) === sorted(before)) return [];
  return [
    added(metadata === undefined ? "/metadata" : "/metadata/annotations", metadata ? wanted : { annotations: wanted }),
  ];
}

function requestsOf(claims: readonly PlacedClaim[]): Annotations {
  const bytes = new Map<string, number>();
  for (const claim of claims)
    if (claim.className !== "" && claim.className.length <= NAME_LIMIT_CHARACTERS)
      bytes.set(claim.className, (bytes.get(claim.className) ?? 0) + claim.bytes);
  return Object.fromEntries(
    [...bytes].map(([className, sum]) => [`${CAPACITY_ANNOTATION_PREFIX}${className}`, sum.toFixed(0)]),
  );
}

const sorted = (annotations: Annotations): string => JSON.stringify(Object.entries(annotations).sort());
const sizeOf = (annotations: Annotations): number =>
  new TextEncoder().encode(Object.entries(annotations).flat().join("")).length;

function warningsOf(missing: readonly string[]): string[] {
  if (missing.length === 0) return [];
  const shown = missing.slice(0, NAMED_LIMIT).map((name) => JSON.stringify(shortened(name, NAME_SHOWN_CHARACTERS)));
  const names = missing.length > NAMED_LIMIT ? `${shown.join(", ")}, …` : shown.join(", ");
  return [
    `claim ${names} does not exist yet: if its class is Tidemark's, the pod is scheduled without checking its capacity`,
  ];
}

/** The warning for a pod that waits for a node and is not marked; undefined: it is as it should be. */
export function missedPlacement(pod: AdmittedPod, claims: PodClaims, asking: ReadonlySet<string>): string | undefined {
  if (pod.spec.nodeName || claims.ours.length === 0) return undefined;
  const schedulerName = pod.spec.schedulerName || DEFAULT_SCHEDULER;
  const isMissed = asking.has(schedulerName)
    ? !isMarked(pod.spec.containers[0]?.resources)
    : schedulerName === DEFAULT_SCHEDULER;
  if (!isMissed) return undefined;
  return `${schedulerName} did not check the capacity for this pod: the pod webhook was unavailable when the pod was created. Delete the pod and create it again`;
}
