// What a pod asks of a node for its volumes: counted from its claims, never from what stands on the pod itself, which anybody may have
// written there. Pure.
import type { FilesystemLayout, MemberSpec } from "../api/filesystem-layout.ts";
import { volumeHandleOf } from "../api/identity.ts";
import {
  BACKEND_PARAMETER,
  DEVICE_CLASS_PARAMETER,
  INITIAL_SIZE_PARAMETER,
  MEMBER_CLASS_PARAMETER,
} from "../csi/class-parameters.ts";
import { driverNamed } from "../csi/driver.ts";
import type { PersistentVolume, PersistentVolumeClaim, Pod, StorageClass } from "../kube/resources.ts";
import { MIB, readQuantity } from "../units/quantity.ts";
import type { ClassDemand, CountedVolume, Demand, PlacedVolume, SlotDemand } from "./demand.ts";

/** What there is, as it was seen last. */
export interface SeenObjects {
  claim(namespace: string, name: string): PersistentVolumeClaim | undefined;
  volume(name: string): PersistentVolume | undefined;
  storageClass(name: string): StorageClass | undefined;
  layout(handle: string): FilesystemLayout | undefined;
  /** The node that has made the volume. */
  madeAt(handle: string): string | undefined;
  /** Where the PersistentVolume is attached, or is about to be. */
  attachedAt(volumeName: string): readonly string[];
}

/** The part of a pod that is read. */
export interface ClaimingPod extends Pick<Pod, "metadata"> {
  readonly spec: Pick<Pod["spec"], "volumes" | "tolerations">;
}

/** "No volumes of ours" is undefined; a sentence says why no node can take the pod as things are. */
export function demandOf(pod: ClaimingPod, seen: SeenObjects): Demand | undefined | string {
  const demands: VolumeDemand[] = [];
  for (const claim of claimsOf(pod)) {
    const found = seen.claim(pod.metadata.namespace ?? "default", claim.name);
    if (found === undefined) return `claim ${claim.name} of the pod does not exist`;
    if (claim.isEphemeral && !isOwnedBy(found, pod))
      return `claim ${claim.name} exists, and was not made for the pod's volume of that name: delete one of them`;
    const demand = volumeDemandOf(found, seen);
    if (typeof demand === "string") return demand;
    if (demand !== undefined) demands.push(demand);
  }
  if (demands.length === 0) return undefined;
  return {
    drivers: [...new Set(demands.map(({ driver }) => driver))],
    classes: demands.flatMap(({ classes }) => classes),
    slots: demands.flatMap(({ slots }) => slots),
    placed: demands.flatMap(({ placed }) => placed),
    volumes: demands,
    awaited: demands.some(({ isNew, slots }) => !isNew && slots.length > 0)
      ? []
      : demands.filter(({ isNew }) => isNew).map(({ handle }) => handle),
    toleratesCordon: toleratesCordon(pod),
  };
}

export interface PodClaim {
  readonly name: string;
  /** Made for the pod, by its own template. */
  readonly isEphemeral: boolean;
}

export function claimsOf({ metadata, spec }: ClaimingPod): PodClaim[] {
  return (spec.volumes ?? []).flatMap(({ name, persistentVolumeClaim, ephemeral }): PodClaim[] => {
    if (persistentVolumeClaim !== undefined) return [{ name: persistentVolumeClaim.claimName, isEphemeral: false }];
    return ephemeral === undefined ? [] : [{ name: `${metadata.name}-${name}`, isEphemeral: true }];
  });
}

function isOwnedBy({ metadata }: PersistentVolumeClaim, pod: ClaimingPod): boolean {
  return (metadata.ownerReferences ?? []).some(
    ({ kind, uid, controller }) => kind === "Pod" && controller === true && uid === pod.metadata.uid,
  );
}

const UNSCHEDULABLE = "node.kubernetes.io/unschedulable";

function toleratesCordon({ spec }: ClaimingPod): boolean {
  return (spec.tolerations ?? []).some(
    ({ key, operator, effect }) =>
      (key === UNSCHEDULABLE || (key === undefined && operator === "Exists")) &&
      (effect === undefined || effect === "" || effect === "NoSchedule"),
  );
}

interface VolumeDemand extends CountedVolume {
  readonly driver: string;
  readonly classes: readonly ClassDemand[];
  readonly slots: readonly SlotDemand[];
  readonly placed: readonly PlacedVolume[];
}

/** The same of one claim; undefined: it is none of ours. */
export function volumeDemandOf(claim: PersistentVolumeClaim, seen: SeenObjects): VolumeDemand | undefined | string {
  const { volumeName } = claim.spec;
  return volumeName ? boundDemand(claim, volumeName, seen) : newDemand(claim, seen);
}

function boundDemand(
  { metadata }: PersistentVolumeClaim,
  volumeName: string,
  seen: SeenObjects,
): VolumeDemand | undefined | string {
  const volume = seen.volume(volumeName);
  if (volume === undefined) return `PersistentVolume ${volumeName} of claim ${metadata.name} does not exist`;
  const driver = driverNamed(volume.spec.csi?.driver);
  if (driver === undefined) return undefined;
  const handle = volume.spec.csi?.volumeHandle ?? "";
  const layout = seen.layout(handle);
  const members = layout === undefined ? [] : attachedMembers(layout);
  return {
    driver: driver.name,
    handle,
    isNew: false,
    classes: [],
    slots: members.map(({ driver: ofMember, volumeName: name }) => ({
      driver: ofMember,
      attachedAt: seen.attachedAt(name),
    })),
    placed: [volume, ...members.flatMap((member) => seen.volume(member.volumeName) ?? [])].map(placedVolume),
  };
}

function placedVolume({ metadata, spec }: PersistentVolume): PlacedVolume {
  return { name: metadata.name, terms: spec.nodeAffinity?.required?.nodeSelectorTerms ?? [] };
}

/** Members of other drivers that the filesystem cannot be mounted without: not those that are out of it, and not its spare. */
function attachedMembers(layout: FilesystemLayout): { driver: string; volumeName: string }[] {
  return (layout.spec.members ?? []).flatMap((member) => {
    const { driver, volumeName } = member.source.claim ?? {};
    return driver === undefined || volumeName === undefined || !isNeeded(layout, member)
      ? []
      : [{ driver, volumeName }];
  });
}

function isNeeded({ status }: FilesystemLayout, { name, state }: MemberSpec): boolean {
  const reported = status?.members?.find((one) => one.name === name)?.state;
  if (reported === "Removed") return false;
  return state === "Spare" ? reported === "Present" : state !== "Removed" || reported !== undefined;
}

function newDemand(claim: PersistentVolumeClaim, seen: SeenObjects): VolumeDemand | undefined | string {
  const { name, uid } = claim.metadata;
  const className = claim.spec.storageClassName ?? "";
  const storageClass = seen.storageClass(className);
  // Without a class, or of one that is not there, nobody provisions it: the scheduler itself says so.
  const driver = driverNamed(storageClass?.provisioner);
  if (storageClass === undefined || driver === undefined || uid === undefined) return undefined;
  const handle = volumeHandleOf(uid);
  const ofClass = firstMemberOf(claim, storageClass);
  if (typeof ofClass === "string") return `claim ${name}: ${ofClass}`;
  const ofVolume = { driver: driver.name, handle, isNew: true, placed: [] };
  if (ofClass.backend !== "span")
    return { ...ofVolume, classes: [{ ...ofClass, madeAt: seen.madeAt(handle) }], slots: [] };
  const memberClass = seen.storageClass(storageClass.parameters?.[MEMBER_CLASS_PARAMETER] ?? "");
  if (memberClass === undefined) return `claim ${name}: ${missingMemberClass(storageClass)}`;
  return { ...ofVolume, classes: [], slots: [{ driver: memberClass.provisioner, attachedAt: [] }] };
}

function missingMemberClass({ metadata, parameters }: StorageClass): string {
  return `StorageClass ${metadata.name} makes members of "${parameters?.[MEMBER_CLASS_PARAMETER] ?? ""}", which is no StorageClass`;
}

/** LVM's own size of what volumes are made of; a group with larger ones has the last word when the volume is made. */
const EXTENT_BYTES = 4 * MIB;

/**
 * What a new volume begins with: the class' initialSize, else the request. That it may grow to its request, and beyond, is for the
 * score: what it begins with is all that is promised to be there.
 */
export function firstMemberOf(
  { spec }: PersistentVolumeClaim,
  { metadata, provisioner, parameters = {} }: StorageClass,
): Omit<ClassDemand, "madeAt"> | string {
  const backends = driverNamed(provisioner)?.backends ?? [];
  const backend = backends.find((one) => one === parameters[BACKEND_PARAMETER]);
  if (backend === undefined)
    return `StorageClass ${metadata.name} has the ${BACKEND_PARAMETER} "${parameters[BACKEND_PARAMETER] ?? ""}"; there are: ${backends.join(", ")}`;
  const size = parameters[INITIAL_SIZE_PARAMETER] ?? spec.resources?.requests?.storage;
  const bytes = readQuantity(size);
  if (bytes === undefined) return `its size "${size ?? ""}" is no quantity such as 10Gi`;
  return {
    backend,
    deviceClass: parameters[DEVICE_CLASS_PARAMETER],
    bytes: Math.ceil(bytes / EXTENT_BYTES) * EXTENT_BYTES,
  };
}
