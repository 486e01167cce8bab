// Which attach slots a pod lacks on a node that it was given, or could be: counted as member/attach-slots.ts does, from what its volumes' drivers
// say on the CSINode and from the VolumeAttachments of the node, less what is being given back. Pure.
import { isStepBefore } from "../../api/decision-time.ts";
import { ephemeralClaimName } from "../../api/ephemeral-claim.ts";
import type { FilesystemLayout, MemberSpec } from "../../api/filesystem-layout.ts";
import { MEMBER_LABEL, RECORDS, SPAN_DRIVER } from "../../api/names.ts";
import type { PersistentVolume, PersistentVolumeClaim, Pod, VolumeAttachment } from "../../kube/resources.ts";
import { neededMembers } from "../member/needed-members.ts";

/** What there is, as the caches show it. */
export interface SeenSlots {
  claim(namespace: string, name: string): PersistentVolumeClaim | undefined;
  volume(name: string): PersistentVolume | undefined;
  layout(handle: string): FilesystemLayout | undefined;
  /** What a claim that has no volume yet will have attached, by its class; undefined: nobody can tell. */
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
export interface AttachedVolume {
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
 * Of members that are asked to leave, or have left and are not detached yet; and of one that has come to replace others, as long as
 * none of them leaves.
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

/** As caches have it (objectKey of src/kube/object.ts). */
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
export function spansOf({ metadata, spec }: Pick<Pod, "metadata" | "spec">, seen: SeenSlots): FilesystemLayout[] {
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
