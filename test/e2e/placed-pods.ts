// Pods with a claim each, made all at once, and where the scheduler has put them, or why not.
import { PERSISTENT_VOLUME_CLAIMS } from "../../src/kube/resources.ts";
import { waitFor } from "../harness/wait-for.ts";
import { applyObject } from "./apply-object.ts";
import { claimingPod, claimOf } from "./claiming-pod.ts";
import type { ClusterUnderTest } from "./cluster-under-test.ts";
import { PODS, type Pod } from "./pod.ts";
import { whatIsThere } from "./what-is-there.ts";

const LIMIT_MS = 300_000;
const INTERVAL_MS = 300;

export interface PlacedPods {
  readonly className: string;
  readonly request: string;
  /** Of the pods' spec. */
  readonly fields?: object;
  /** Of their container's: requests and limits. */
  readonly resources?: object;
}

/** Claims first, each with its pod of the same name, in one request of kubectl's. */
export async function makePods(
  tested: ClusterUnderTest,
  names: readonly string[],
  { className, request, fields = {}, resources = {} }: PlacedPods,
): Promise<void> {
  const claims = names.map((name) => claimOf(name, className, request));
  const pods = names.map((name) => {
    const pod = claimingPod(name, tested.image, name) as { spec: { containers: object[] } };
    const containers = pod.spec.containers.map((container) => ({ ...container, resources }));
    return { ...pod, spec: { ...pod.spec, ...fields, containers } };
  });
  await applyObject(tested, { apiVersion: "v1", kind: "List", items: [...claims, ...pods] });
}

export async function until<T>(tested: ClusterUnderTest, what: string, look: () => Promise<T | undefined>): Promise<T> {
  return waitFor(what, look, { limitMs: LIMIT_MS, intervalMs: INTERVAL_MS, otherwise: () => whatIsThere(tested) });
}

export async function podsOf(tested: ClusterUnderTest, names: readonly string[]): Promise<Pod[]> {
  const { items } = await tested.client.list(PODS, { namespace: tested.namespace });
  return items.filter(({ metadata }) => names.includes(metadata.name));
}

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
  const namesOf = (pods: readonly Pod[]): string[] => pods.map(({ metadata }) => metadata.name);
  return {
    running: namesOf(seen.filter(isRunning)),
    waiting: namesOf(seen.filter((pod) => !isRunning(pod))),
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
