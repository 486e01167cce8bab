// What a pod asks of a node for its volumes: counted from its claims, never from what stands on the pod itself, which anybody may have
// written there. Pure.
import { ephemeralClaimName } from "../../api/ephemeral-claim.ts";
import type { FilesystemLayout, MemberSpec } from "../../api/filesystem-layout.ts";
import { volumeHandleOf } from "../../api/identity.ts";
import {
  BACKEND_PARAMETER,
  DEVICE_CLASS_PARAMETER,
  INITIAL_SIZE_PARAMETER,
  MEMBER_CLASS_PARAMETER,
} from "../../csi/class-parameters.ts";
import { driverNamed } from "../../csi/driver.ts";
import type { PersistentVolume, PersistentVolumeClaim, Pod, StorageClass } from "../../kube/resources.ts";
import { MIB, readQuantity } from "../../units/quantity.ts";
import type { ClassDemand, CountedVolume, Demand, PlacedVolume, Refusal, SlotDemand } from "./demand.ts";

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

/** Undefined: no volumes of ours. */
export function demandOf(pod: ClaimingPod, seen: SeenObjects): Demand | undefined | Refusal {
  const demands: VolumeDemand[] = [];
  for (const claim of claimsOf(pod)) {
    const found = seen.claim(pod.metadata.namespace ?? "default", claim.name);
    if (found === undefined) return notSeen(`claim ${claim.name} of the pod`);
    // Its predecessor's may be on its way out.
    if (claim.isEphemeral && !isOwnedBy(found, pod)) {
      const sentence = `claim ${claim.name} exists, and was not made for the pod's volume of that name: delete one of them`;
      return { sentence, mayPass: true };
    }
    const demand = volumeDemandOf(found, seen);
    if (isRefusal(demand)) return demand;
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
    toleratesCordon: cordonTolerations(pod.spec.tolerations ?? []).length > 0,
  };
}

function notSeen(object: string): Refusal {
  return { sentence: `${object} does not exist, or is not seen by Tidemark yet; it is tried again`, mayPass: true };
}

export function isRefusal(answer: object | undefined): answer is Refusal {
  return answer !== undefined && "sentence" in answer;
}

export interface PodClaim {
  readonly name: string;
  /** Made for the pod, by its own template. */
  readonly isEphemeral: boolean;
}

export function claimsOf({ metadata, spec }: ClaimingPod): PodClaim[] {
  return (spec.volumes ?? []).flatMap(({ name, persistentVolumeClaim, ephemeral }): PodClaim[] => {
    if (persistentVolumeClaim !== undefined) return [{ name: persistentVolumeClaim.claimName, isEphemeral: false }];
    return ephemeral === undefined ? [] : [{ name: ephemeralClaimName(metadata.name, name), isEphemeral: true }];
  });
}

function isOwnedBy({ metadata }: PersistentVolumeClaim, pod: ClaimingPod): boolean {
  return (metadata.ownerReferences ?? []).some(
    ({ kind, uid, controller }) => kind === "Pod" && controller === true && uid === pod.metadata.uid,
  );
}

const UNSCHEDULABLE = "node.kubernetes.io/unschedulable";

/** Those by which a pod may be put on a node that is cordoned. */
export function cordonTolerations(tolerations: NonNullable<Pod["spec"]["tolerations"]>): typeof tolerations {
  return tolerations.filter(
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
export function volumeDemandOf(claim: PersistentVolumeClaim, seen: SeenObjects): VolumeDemand | undefined | Refusal {
  const { volumeName } = claim.spec;
  return volumeName ? boundDemand(claim, volumeName, seen) : newDemand(claim, seen);
}

function boundDemand(
  { metadata }: PersistentVolumeClaim,
  volumeName: string,
  seen: SeenObjects,
): VolumeDemand | undefined | Refusal {
  const volume = seen.volume(volumeName);
  if (volume === undefined) return notSeen(`PersistentVolume ${volumeName} of claim ${metadata.name}`);
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

/** The attach slot that a bound claim of another driver takes where a pod uses it; undefined: none, or one of ours. */
export function foreignSlotOf({ spec }: PersistentVolumeClaim, seen: SeenObjects): SlotDemand | undefined {
  const driver = seen.volume(spec.volumeName ?? "")?.spec.csi?.driver;
  if (driver === undefined || driverNamed(driver) !== undefined) return undefined;
  return { driver, attachedAt: seen.attachedAt(spec.volumeName ?? "") };
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

function newDemand(claim: PersistentVolumeClaim, seen: SeenObjects): VolumeDemand | undefined | Refusal {
  const { name, uid } = claim.metadata;
  const className = claim.spec.storageClassName;
  // Without a class nobody provisions it: the scheduler itself says so, as of one that is not there.
  if (!className) return undefined;
  const storageClass = seen.storageClass(className);
  if (storageClass === undefined) return notSeen(`StorageClass ${className} of claim ${name}`);
  const driver = driverNamed(storageClass.provisioner);
  if (driver === undefined || uid === undefined) return undefined;
  const handle = volumeHandleOf(uid);
  const ofClass = firstMemberOf(claim, storageClass);
  if (typeof ofClass === "string") return { sentence: `claim ${name}: ${ofClass}`, mayPass: false };
  const ofVolume = { driver: driver.name, handle, isNew: true, placed: [] };
  if (ofClass.backend !== "span")
    return { ...ofVolume, classes: [{ ...ofClass, madeAt: seen.madeAt(handle) }], slots: [] };
  const nameOfMembers = storageClass.parameters?.[MEMBER_CLASS_PARAMETER] ?? "";
  const memberClass = seen.storageClass(nameOfMembers);
  if (memberClass === undefined)
    return notSeen(`StorageClass "${nameOfMembers}", of which ${className} of claim ${name} makes members,`);
  return { ...ofVolume, classes: [], slots: [{ driver: memberClass.provisioner, attachedAt: [] }] };
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
