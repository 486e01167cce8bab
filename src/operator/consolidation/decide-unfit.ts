// Which filesystems no node can take, since a pod's volumes need more attach slots together than any node has, however few are used:
// there nothing frees enough. Nor can members be merged: btrfs takes one out only while it is mounted, and to be mounted it needs all of
// them attached. So people are told. Pure; where anything is not known, nothing is said.
import type { FilesystemLayout } from "../../api/filesystem-layout.ts";
import type { Pod } from "../../kube/resources.ts";
import { neededMembers } from "../member/needed-members.ts";
import { isInReach, type SeenNodes } from "./pod-nodes.ts";
import { type AttachedVolume, lacksOf, podKey, spansOf, volumesOf } from "./pod-slots.ts";

/** A filesystem that waits for a node with more slots. */
export interface Unfit {
  readonly pod: string;
  readonly message: string;
}

/** By the handle of the filesystem; of pods that lack slots. */
export function decideUnfit(pods: readonly Pod[], seen: SeenNodes): Map<string, Unfit> {
  const unfit = new Map<string, Unfit>();
  for (const pod of pods) {
    const message = whyNowhere(pod, seen);
    if (message === undefined) continue;
    const key = podKey(pod);
    for (const layout of spansOf(pod, seen).filter(isManyAndNowhere))
      unfit.set(layout.metadata.name, { pod: key, message: `pod ${key} waits: ${message}` });
  }
  return unfit;
}

function isManyAndNowhere(layout: FilesystemLayout): boolean {
  return layout.status?.mounted !== true && neededMembers(layout).length > 1;
}

function whyNowhere(pod: Pod, seen: SeenNodes): string | undefined {
  const volumes = volumesOf(pod, seen)?.filter(({ driver }) => seen.attaches(driver));
  if (volumes === undefined) return undefined;
  // What is attached already waits for something else.
  if (pod.spec.nodeName && lacksOf(volumes, pod.spec.nodeName, seen).length === 0) return undefined;
  for (const driver of new Set(volumes.map((volume) => volume.driver))) {
    const wanted = volumes.filter((volume) => volume.driver === driver).length;
    const most = mostSlots(driver, volumes, seen);
    if (most !== undefined && most < wanted)
      return (
        `its volumes take ${wanted} attach slots of ${driver} on one node, and no node within their reach has more than ${most}. Members are ` +
        `merged only while a filesystem is mounted, with all of them attached: a node with ${wanted} slots is needed`
      );
  }
  return undefined;
}

/** The most that a node within reach attaches, used or not; undefined: there is no such node, or one without a limit. */
function mostSlots(driver: string, volumes: readonly AttachedVolume[], seen: SeenNodes): number | undefined {
  let most: number | undefined;
  for (const node of seen.nodes()) {
    if (!volumes.every((volume) => isInReach(volume, node, seen))) continue;
    const limit = seen.limitOn(node.metadata.name, driver);
    if (limit === undefined) return undefined;
    most = Math.max(most ?? 0, limit);
  }
  return most;
}
