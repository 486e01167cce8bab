// Pods with a claim each, made all at once, and where the scheduler has put them, or why not.

import { PERSISTENT_VOLUME_CLAIMS, type PersistentVolumeClaim } from "../../src/contracts/kubernetes/resources.ts";
import { TIDEMARK_SCHEDULER } from "../../src/contracts/names.ts";
import { waitFor } from "../harness/wait-for.ts";
import { applyObject } from "./apply-object.ts";
import { claimingPod, claimOf } from "./claiming-pod.ts";
import type { ClusterUnderTest } from "./cluster-under-test.ts";
import { PODS, type Pod } from "./pod.ts";
import { whatIsThere } from "./what-is-there.ts";

const LIMIT_MS = 300_000;
const INTERVAL_MS = 300;
/** No scheduler looks at a pod before it is gone. */
const GATE = "tidemark.dev/e2e";

export interface PlacedPods {
  readonly className: string;
  readonly request: string;
  /** Of the pods' spec. */
  readonly fields?: object;
}

/** Claims first, each with its pod of the same name, in one request of kubectl's. */
export async function makePods(
  tested: ClusterUnderTest,
  names: readonly string[],
  { className, request, fields = {} }: PlacedPods,
): Promise<void> {
  const claims = names.map((name) => claimOf(name, className, request));
  const pods = names.map((name) => {
    const pod = claimingPod(name, tested.image, name) as { spec: object };
    return { ...pod, spec: { ...pod.spec, ...fields } };
  });
  await applyObject(tested, { apiVersion: "v1", kind: "List", items: [...claims, ...pods] });
}

/**
 * The same, as the component's webhook has made them: it alone gives them their scheduler. None is placed before it is released, so that
 * one that the webhook has missed, as it may, can be made again.
 */
export async function makeMarkedPods(
  tested: ClusterUnderTest,
  names: readonly string[],
  pods: PlacedPods,
): Promise<void> {
  const fields = { ...pods.fields, schedulingGates: [{ name: GATE }] };
  await until(tested, `the pod webhook to mark ${names.join(", ")}`, async () => {
    const there = (await podsOf(tested, names)).map(nameOf);
    const missing = names.filter((name) => !there.includes(name));
    if (missing.length > 0) await makePods(tested, missing, { ...pods, fields });
    const missed = (await podsOf(tested, names)).filter(({ spec }) => spec.schedulerName !== TIDEMARK_SCHEDULER);
    if (missed.length === 0) return true;
    await tested.kubectl("delete", "pod", "--wait", ...missed.map(nameOf));
    return undefined;
  });
}

/** From now on their scheduler looks for nodes for them. */
export async function release({ client, namespace }: ClusterUnderTest, names: readonly string[]): Promise<void> {
  const ungated = { spec: { schedulingGates: null } };
  await Promise.all(names.map((name) => client.mergePatch("e2e/release", PODS, { namespace, name }, ungated)));
}

export async function until<T>(tested: ClusterUnderTest, what: string, look: () => Promise<T | undefined>): Promise<T> {
  return waitFor(what, look, { limitMs: LIMIT_MS, intervalMs: INTERVAL_MS, otherwise: () => whatIsThere(tested) });
}

export async function podsOf(tested: ClusterUnderTest, names: readonly string[]): Promise<Pod[]> {
  const { items } = await tested.client.list(PODS, { namespace: tested.namespace });
  return items.filter(({ metadata }) => names.includes(metadata.name));
}

export async function claimsOf(
  { client, namespace }: ClusterUnderTest,
  names: readonly string[],
): Promise<PersistentVolumeClaim[]> {
  const { items } = await client.list(PERSISTENT_VOLUME_CLAIMS, { namespace });
  return items.filter(({ metadata }) => names.includes(metadata.name));
}

const nameOf = ({ metadata }: Pod): string => metadata.name;

export const isRunning = ({ status }: Pod): boolean => status?.phase === "Running";

/** The node of each, in the order of the names. */
export async function runningOn(tested: ClusterUnderTest, ...names: readonly string[]): Promise<string[]> {
  const pods = await until(tested, `${names.join(", ")} to run`, async () => {
    const found = await podsOf(tested, names);
    return found.length === names.length && found.every(isRunning) ? found : undefined;
  });
  return names.map((name) => pods.find(({ metadata }) => metadata.name === name)?.spec.nodeName ?? "");
}

/** What `kubectl describe pod` tells of one that is not placed. */
export function whyNotPlaced({ status }: Pick<Pod, "status">): string {
  const condition = status?.conditions?.find(({ type }) => type === "PodScheduled");
  return condition?.status === "False" ? (condition.message ?? "") : "";
}

/** So many of them run, and all others wait with this word of the scheduler's. */
export async function runAndWait(
  tested: ClusterUnderTest,
  names: readonly string[],
  runningCount: number,
  why: string,
): Promise<{ readonly running: string[]; readonly waiting: string[] }> {
  const others = names.length - runningCount;
  const seen = await until(tested, `${runningCount} pods to run and ${others} to wait: ${why}`, async () => {
    const pods = await podsOf(tested, names);
    const waiting = pods.filter((pod) => whyNotPlaced(pod).includes(why));
    return pods.filter(isRunning).length === runningCount && waiting.length === others ? pods : undefined;
  });
  return {
    running: seen.filter(isRunning).map(nameOf),
    waiting: seen.filter((pod) => !isRunning(pod)).map(nameOf),
  };
}

/** Pods and their claims, and waits until the claims are gone. */
export async function removePods({ kubectl }: ClusterUnderTest, names: readonly string[]): Promise<void> {
  await kubectl("delete", "pod", "--wait", "--ignore-not-found", ...names);
  await kubectl("delete", "pvc", "--timeout=240s", "--ignore-not-found", ...names);
}

/** How often a claim was refused on the node that the scheduler had chosen for it. */
export async function refusedPlacements({ kubectl, client, namespace }: ClusterUnderTest): Promise<number> {
  const { items } = await client.list(PERSISTENT_VOLUME_CLAIMS, { namespace });
  const told = JSON.parse(
    await kubectl("get", "events", "--field-selector", "reason=ProvisioningFailed", "--output", "json"),
  ) as { items: { message: string; count?: number; involvedObject: { uid: string } }[] };
  const uids = new Set(items.map(({ metadata }) => metadata.uid));
  return told.items
    .filter(({ message, involvedObject }) => uids.has(involvedObject.uid) && message.includes("ResourceExhausted"))
    .reduce((sum, { count = 1 }) => sum + count, 0);
}
