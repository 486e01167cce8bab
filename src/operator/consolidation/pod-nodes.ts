// Which nodes a pod could run on but for their attach slots: the one that it was given, or, where the scheduler has found none for want of
// slots, those that nothing else is seen to speak against. Pure. In doubt a node is left out: no data moves for a guess.
import type { Node, Pod } from "../../kube/resources.ts";
import { isWithin, topologiesOf } from "../member/volume-topology.ts";
import type { AttachedVolume, SeenSlots } from "./pod-slots.ts";

export interface SeenNodes extends SeenSlots {
  nodes(): readonly Node[];
  /** Whether the driver's node service is there. */
  runsOn(node: string, driver: string): boolean;
}

/** What schedulers say of slots: the stock one of a driver's limit, our extender of members (src/extender/decide/misfit.ts). */
const FOR_WANT_OF_SLOTS = /exceed max volume count|attach slots left/;

/** Its scheduler has found no node, and names slots among the reasons. */
export function lacksNodeForSlots({ spec, status }: Pod): boolean {
  const scheduled = status?.conditions?.find(({ type }) => type === "PodScheduled");
  return !spec.nodeName && scheduled?.status === "False" && FOR_WANT_OF_SLOTS.test(scheduled.message ?? "");
}

export function nodesOf(pod: Pod, volumes: readonly AttachedVolume[], seen: SeenNodes): string[] {
  const { nodeName, nodeSelector = {}, affinity } = pod.spec;
  if (nodeName) return [nodeName];
  if (!lacksNodeForSlots(pod)) return [];
  // Whatever it says, the scheduler judges it.
  if (affinity?.nodeAffinity?.requiredDuringSchedulingIgnoredDuringExecution !== undefined) return [];
  const isFit = (node: Node): boolean =>
    isOpen(node) && selects(nodeSelector, node) && volumes.every((volume) => isInReach(volume, node, seen));
  return seen
    .nodes()
    .filter(isFit)
    .map(({ metadata }) => metadata.name);
}

/** A taint may be tolerated; nobody is moved for it all the same. */
function isOpen({ metadata, spec, status }: Node): boolean {
  const isReady = status?.conditions?.some(({ type, status: is }) => type === "Ready" && is === "True") === true;
  const isTainted = spec?.taints?.some(({ effect }) => effect !== "PreferNoSchedule") === true;
  return isReady && !isTainted && spec?.unschedulable !== true && metadata.deletionTimestamp === undefined;
}

function selects(selector: Readonly<Record<string, string>>, { metadata }: Node): boolean {
  return Object.entries(selector).every(([key, value]) => metadata.labels?.[key] === value);
}

export function isInReach({ driver, volumeName }: AttachedVolume, { metadata }: Node, seen: SeenNodes): boolean {
  if (!seen.runsOn(metadata.name, driver)) return false;
  if (volumeName === undefined) return true;
  const volume = seen.volume(volumeName);
  const topologies = volume && topologiesOf(volume);
  return topologies !== undefined && isWithin(topologies, metadata.labels ?? {});
}
