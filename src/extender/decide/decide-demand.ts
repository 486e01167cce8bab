// What a pod asks of a node for its volumes: counted from its claims, never from the pod itself, where its author writes what he likes.
// Pure.
import { driverNamed } from "../../contracts/csi/driver.ts";
import { volumeHandleOf } from "../../contracts/identity.ts";
import type { FilesystemLayout, MemberSpec, OwnBackend } from "../../contracts/kinds/filesystem-layout.ts";
import {
  ephemeralClaimName,
  type NodeSelectorTerm,
  type PersistentVolume,
  type PersistentVolumeClaim,
  type Pod,
  type StorageClass,
} from "../../contracts/kubernetes/resources.ts";
import {
  BACKEND_PARAMETER,
  DEVICE_CLASS_PARAMETER,
  INITIAL_SIZE_PARAMETER,
  MEMBER_CLASS_PARAMETER,
} from "../../contracts/names.ts";
import { MIB, readQuantity } from "../../contracts/quantities/quantity.ts";

/** A new member of a device class. */
export interface ClassDemand {
  readonly backend: OwnBackend;
  /** Undefined: the node's default class. */
  readonly deviceClass: string | undefined;
  readonly bytes: number;
  /** The node that has made it already, where it takes no further bytes. */
  readonly madeAt: string | undefined;
}

/** A member of another driver that has to be attached to the pod's node. */
export interface SlotDemand {
  readonly driver: string;
  /** Nodes that it is attached to already, where it takes no further slot. */
  readonly attachedAt: readonly string[];
}

/** A volume that is there already, and where it can be used. */
export interface PlacedVolume {
  readonly name: string;
  /** Of a PersistentVolume: any of the terms; none: anywhere. */
  readonly terms: readonly NodeSelectorTerm[];
}

/** Why no node at all can take a pod as things are. */
export interface Unplaceable {
  readonly sentence: string;
  /** It is of an object that is not there, which we may only not have seen yet: the scheduler, who has, is to ask again soon. */
  readonly mayPass: boolean;
}

/** A volume that the demand counts. */
interface CountedVolume {
  /** Its CSI volume handle, as the ledger knows it. */
  readonly handle: string;
  /** It is still to be made, or to be bound to its claim: its bytes are asked for. */
  readonly isNew: boolean;
}

export interface Demand {
  /** Drivers of ours that have to be registered. */
  readonly drivers: readonly string[];
  readonly classes: readonly ClassDemand[];
  readonly slots: readonly SlotDemand[];
  readonly placed: readonly PlacedVolume[];
  readonly toleratesCordon: boolean;
  readonly volumes: readonly CountedVolume[];
  /**
   * Handles of volumes that are counted by themselves once all their places are seen: then the pod's hold ends. Empty: the pod's own place
   * has to be seen, since existing members change hands with it.
   */
  readonly awaited: readonly string[];
}

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
export function demandOf(pod: ClaimingPod, seen: SeenObjects): Demand | undefined | Unplaceable {
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
    if (isUnplaceable(demand)) return demand;
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

function notSeen(object: string): Unplaceable {
  return { sentence: `${object} does not exist, or is not seen by Tidemark yet; it is tried again`, mayPass: true };
}

export function isUnplaceable(answer: object | undefined): answer is Unplaceable {
  return answer !== undefined && "sentence" in answer;
}

interface PodClaim {
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

/** The same of one claim; undefined: the volume is not ours. */
export function volumeDemandOf(
  claim: PersistentVolumeClaim,
  seen: SeenObjects,
): VolumeDemand | undefined | Unplaceable {
  const { volumeName } = claim.spec;
  return volumeName ? boundDemand(claim, volumeName, seen) : newDemand(claim, seen);
}

function boundDemand(
  { metadata }: PersistentVolumeClaim,
  volumeName: string,
  seen: SeenObjects,
): VolumeDemand | undefined | Unplaceable {
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

function newDemand(claim: PersistentVolumeClaim, seen: SeenObjects): VolumeDemand | undefined | Unplaceable {
  const { name, uid } = claim.metadata;
  const className = claim.spec.storageClassName;
  // Without a class it is not provisioned: the scheduler itself says so, as of one that is not there.
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
function firstMemberOf(
  { spec }: PersistentVolumeClaim,
  { metadata, provisioner, parameters = {} }: StorageClass,
): Omit<ClassDemand, "madeAt"> | string {
  const backends = driverNamed(provisioner)?.backends ?? [];
  const backend = backends.find((one) => one === parameters[BACKEND_PARAMETER]);
  if (backend === undefined)
    return `StorageClass ${metadata.name} has the ${BACKEND_PARAMETER} "${parameters[BACKEND_PARAMETER] ?? ""}"; there are: ${backends.join(", ")}`;
  const size = parameters[INITIAL_SIZE_PARAMETER] ?? spec.resources?.requests?.storage;
  const bytes = readQuantity(size);
  if (bytes === undefined) return `its size "${size ?? ""}" is not a quantity such as 10Gi`;
  return {
    backend,
    deviceClass: parameters[DEVICE_CLASS_PARAMETER],
    bytes: Math.ceil(bytes / EXTENT_BYTES) * EXTENT_BYTES,
  };
}
