// Which attach slots a pod lacks on a node that it was given, or could be: counted as gather/member-room.ts does, from what its volumes'
// drivers say on the CSINode and from the VolumeAttachments of the node, less what is being given back. And which filesystems no node can
// take: a pod's volumes together need more slots than any node has, however few are used. There nothing frees enough; nor can members be
// merged: btrfs takes one out only while it is mounted, and a mount needs all of them attached. So the operator reports it. Pure; where
// anything is unknown, nothing is reported.
import { isStepBefore } from "../../contracts/formulas/decision-order.ts";
import type { FilesystemLayout, MemberSpec } from "../../contracts/kinds/filesystem-layout.ts";
import {
  ephemeralClaimName,
  type Node,
  type PersistentVolume,
  type PersistentVolumeClaim,
  type Pod,
  type VolumeAttachment,
} from "../../contracts/kubernetes/resources.ts";
import { MEMBER_LABEL, RECORDS, SPAN_DRIVER } from "../../contracts/names.ts";
import { neededMembers } from "../decide/members/decide-member-state.ts";
import { isWithin, topologiesOf } from "../decide/volume-topology.ts";

/** What there is, as the caches show it. */
interface SeenSlots {
  claim(namespace: string, name: string): PersistentVolumeClaim | undefined;
  volume(name: string): PersistentVolume | undefined;
  layout(handle: string): FilesystemLayout | undefined;
  /** What a claim that has no volume yet will have attached, by its class; undefined: unknown. */
  driverOfNew(claim: PersistentVolumeClaim): string | undefined;
  /** Whether volumes of a driver are attached at all. */
  attaches(driver: string): boolean;
  attachmentsOn(node: string): readonly VolumeAttachment[];
  layoutsOn(node: string): readonly FilesystemLayout[];
  /** Undefined: the driver has no limit there. */
  limitOn(node: string, driver: string): number | undefined;
}

export interface SlotLack {
  readonly driver: string;
  readonly limit: number;
  /** Without those that are being given back. */
  readonly used: number;
  /** What the pod has to have attached still. */
  readonly wanted: number;
  readonly missing: number;
}

/** What a pod has to have attached. */
interface AttachedVolume {
  readonly driver: string;
  /** Undefined: it is made once the pod has a node. */
  readonly volumeName: string | undefined;
}

/** None: it lacks no slot there. */
export function lacksOf(all: readonly AttachedVolume[], node: string, seen: SeenSlots): SlotLack[] {
  const volumes = all.filter(({ driver }) => seen.attaches(driver));
  const there = seen.attachmentsOn(node);
  const here = new Set(there.map(({ spec }) => spec.source.persistentVolumeName));
  const layouts = seen.layoutsOn(node);
  const passing = passingVolumes(layouts);
  const toAttach = volumes.filter(({ volumeName }) => volumeName === undefined || !here.has(volumeName));
  return [...new Set(toAttach.map(({ driver }) => driver))].flatMap((driver) => {
    const limit = seen.limitOn(node, driver);
    if (limit === undefined) return [];
    const wanted = toAttach.filter((volume) => volume.driver === driver).length;
    const used = there.filter(
      ({ spec, metadata }) =>
        spec.attacher === driver &&
        metadata.deletionTimestamp === undefined &&
        !passing.has(spec.source.persistentVolumeName) &&
        !isOfDepartedMember(metadata.labels, layouts),
    ).length;
    const missing = used + wanted - limit;
    return missing > 0 ? [{ driver, limit, used, wanted, missing }] : [];
  });
}

/**
 * Volumes of members that are asked to leave, or have left and are not detached yet. Also of a member that has come to
 * replace others, before the first of those leaves.
 */
function passingVolumes(layouts: readonly FilesystemLayout[]): Set<string | undefined> {
  const passing = layouts.flatMap(({ spec: { members = [], target } }) => {
    const isComing = ({ replaces, state }: MemberSpec): boolean =>
      replaces !== undefined &&
      (state === "Spare" || (target !== undefined && isStepBefore(target.decidedAt, replaces.decidedAt)));
    return members.filter((member) => member.state === "Removed" || isComing(member));
  });
  return new Set(passing.map(({ source }) => source.claim?.volumeName));
}

/** Caches show a layout without the member before they show that its attachment has gone, or is to go. */
function isOfDepartedMember(labels: Readonly<Record<string, string>> = {}, layouts: readonly FilesystemLayout[]) {
  const owner = layouts.find(({ spec: { volumeUID } }) => volumeUID && volumeUID === labels[RECORDS.volumeUID]);
  return owner !== undefined && !owner.spec.members?.some(({ name }) => name === labels[MEMBER_LABEL]);
}

/** As caches have it (objectKey of src/contracts/kubernetes/object.ts). */
export function podKey({ metadata }: Pick<Pod, "metadata">): string {
  return `${metadata.namespace}/${metadata.name}`;
}

/** Undefined: what one of its claims is made of, or will be, is not known. */
export function volumesOf({ metadata, spec }: Pod, seen: SeenSlots): AttachedVolume[] | undefined {
  const found: AttachedVolume[] = [];
  for (const claimName of claimNamesOf({ metadata, spec })) {
    const claim = seen.claim(metadata.namespace ?? "", claimName);
    const volumes = claim && attachedVolumes(claim, spec.nodeName, seen);
    if (volumes === undefined) return undefined;
    found.push(...volumes);
  }
  return found;
}

/** Those of its filesystems that are spans. */
function spansOf({ metadata, spec }: Pick<Pod, "metadata" | "spec">, seen: SeenSlots): FilesystemLayout[] {
  return claimNamesOf({ metadata, spec }).flatMap((name) => {
    const volume = seen.volume(seen.claim(metadata.namespace ?? "", name)?.spec.volumeName ?? "");
    const { driver, volumeHandle } = volume?.spec.csi ?? {};
    return driver === SPAN_DRIVER ? (seen.layout(volumeHandle ?? "") ?? []) : [];
  });
}

function claimNamesOf({ metadata, spec }: Pick<Pod, "metadata" | "spec">): string[] {
  return (spec.volumes ?? []).flatMap(({ name, persistentVolumeClaim, ephemeral }) => {
    const claimName = persistentVolumeClaim?.claimName ?? (ephemeral && ephemeralClaimName(metadata.name, name));
    return claimName === undefined ? [] : [claimName];
  });
}

function attachedVolumes(
  claim: PersistentVolumeClaim,
  nodeName: string | undefined,
  seen: SeenSlots,
): AttachedVolume[] | undefined {
  const { volumeName } = claim.spec;
  if (volumeName === undefined) {
    // Of a pod that has its node it is being made.
    const driver = nodeName ? undefined : seen.driverOfNew(claim);
    return driver === undefined ? undefined : [{ driver, volumeName: undefined }];
  }
  const volume = seen.volume(volumeName);
  if (volume === undefined) return undefined;
  const { driver, volumeHandle } = volume.spec.csi ?? {};
  if (driver === undefined) return [];
  if (driver !== SPAN_DRIVER) return [{ driver, volumeName: volume.metadata.name }];
  const layout = seen.layout(volumeHandle ?? "");
  return layout && membersToAttach(layout);
}

function membersToAttach(layout: FilesystemLayout): AttachedVolume[] | undefined {
  const needed = neededMembers(layout);
  const found = needed.flatMap(({ source }) => {
    const { driver, volumeName } = source.claim ?? {};
    return driver === undefined || volumeName === undefined ? [] : [{ driver, volumeName }];
  });
  return found.length === needed.length ? found : undefined;
}

export interface SeenNodes extends SeenSlots {
  nodes(): readonly Node[];
  /** Whether the driver's node service is there. */
  runsOn(node: string, driver: string): boolean;
}

/** What schedulers say of slots: the stock one of a driver's limit, our extender of members (src/extender/decide/decide-fit.ts). */
const FOR_WANT_OF_SLOTS = /exceed max volume count|attach slots left/;

/** Its scheduler has found no node, and names slots among the reasons. */
export function lacksNodeForSlots({ spec, status }: Pod): boolean {
  const scheduled = status?.conditions?.find(({ type }) => type === "PodScheduled");
  return !spec.nodeName && scheduled?.status === "False" && FOR_WANT_OF_SLOTS.test(scheduled.message ?? "");
}

/**
 * Where a pod could run but for its attach slots: the node that it was given, or, where the scheduler has found none for want of slots, those
 * that nothing else is seen to speak against. Where anything is unknown a node is left out: no data moves for a guess.
 */
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

/** A pod may tolerate a taint; a tainted node is left out all the same. */
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
      unfit.set(layout.metadata.name, { pod: key, message: `pod ${pod.metadata.name} ${message}` });
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
      return `needs ${wanted} attach slots of ${driver} on one node to merge its volumes, and no node in reach has more than ${most}`;
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
