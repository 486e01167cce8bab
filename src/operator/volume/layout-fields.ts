// The part of a FilesystemLayout and of a Filesystem that the operator owns, as server-side-apply configurations. An apply
// gives up every owned field that it leaves out, so each write carries all of them. Pure.
import { FILESYSTEMS } from "../../api/filesystem.ts";
import {
  FILESYSTEM_LAYOUTS,
  type FilesystemLayout,
  type FilesystemLayoutSpec,
  type MemberSpec,
} from "../../api/filesystem-layout.ts";
import {
  API_VERSION,
  GROWTH_ASKED_ANNOTATION,
  GROWTH_FAILED_ANNOTATION,
  GROWTH_SETTLED_ANNOTATION,
  GROWTH_WORKED_ANNOTATION,
  MEMBER_ROUNDED_ANNOTATION,
  NEXT_MEMBER_ANNOTATION,
  RECORDS,
  SELECTED_NODE_ANNOTATION,
} from "../../api/names.ts";
import type { ApplyConfiguration } from "../../kube/client/client.ts";
import { versionOf } from "../../kube/client/on-latest.ts";
import { formatQuantity } from "../../units/quantity.ts";
import type { LogicalVolumeRecord } from "../lvm/logical-volume-record.ts";
import { recordsOfRules } from "../member/member-rules.ts";
import { type ClaimIdentity, sizeRecordsOf, type VolumeRecord } from "./volume-record.ts";

/** What the operator writes into a layout's spec; `emergency` is the policy-engine's. */
export type OperatorSpec = Omit<FilesystemLayoutSpec, "emergency">;

/** Of a volume that lies on one node. */
const ONLY_MEMBER_NAME = "m0";

/** A new layout of these members. */
export function newLayout(
  record: VolumeRecord,
  members: MemberSpec[],
  annotations: Record<string, string> = {},
): ApplyConfiguration {
  const spec: OperatorSpec = {
    claimRef: { ...record.claim },
    volumeUID: record.volumeUID,
    backend: record.backend,
    ...(record.fsType === undefined ? {} : { fsType: record.fsType }),
    ...(record.volumeMode === "Block" ? { volumeMode: record.volumeMode } : {}),
    ...(record.nodeName === undefined ? {} : { nodeName: record.nodeName }),
    members,
  };
  return {
    apiVersion: API_VERSION,
    kind: FILESYSTEM_LAYOUTS.kind,
    metadata: {
      name: record.handle,
      annotations: { ...sizeRecordsOf(record), ...recordsOfRules(record.memberRules), ...annotations },
    },
    spec,
  };
}

/** The member of a loop volume. `memberBytes` undefined: as found on the node, for a layout that is made again. */
export function loopMember(handle: string, memberBytes: number | undefined, state: "Present" | "Removed"): MemberSpec {
  return { ...onlyMember(memberBytes, state), source: { loop: { file: `${handle}-0.img` } } };
}

/** The member of a lvm volume; `memberBytes` as above. */
export function lvmMember(
  handle: string,
  memberBytes: number | undefined,
  state: "Present" | "Removed",
  { volumeID, deviceClass }: LogicalVolumeRecord,
): MemberSpec {
  return { ...onlyMember(memberBytes, state), source: { logicalVolume: { name: handle, volumeID, deviceClass } } };
}

/** As its record names it, of whatever size is found on the node. A record of the backend lvm without its volume is incomplete. */
export function recordedMember(
  { backend, handle, logicalVolume }: VolumeRecord,
  state: "Present" | "Removed",
): MemberSpec {
  return backend === "lvm" && logicalVolume !== undefined
    ? lvmMember(handle, undefined, state, logicalVolume)
    : loopMember(handle, undefined, state);
}

function onlyMember(memberBytes: number | undefined, state: "Present" | "Removed"): Omit<MemberSpec, "source"> {
  return { name: ONLY_MEMBER_NAME, ...(memberBytes === undefined ? {} : { size: formatQuantity(memberBytes) }), state };
}

/** What of a layout is changed; a field that is there and undefined is taken away. */
export type LayoutFields = Partial<OperatorSpec> & {
  /** The number of the member that is made next. */
  readonly nextMember?: number;
  /** What is remembered of the growth of its members: the annotations' texts. */
  readonly growth?: GrowthRecord;
  /** What is remembered of its class' rounding: the annotation's text. */
  readonly rounding?: string;
};

/** Each absent: as it stands. */
export interface GrowthRecord {
  readonly failedAt?: string;
  readonly workedAt?: string;
  readonly asked?: string;
  readonly settled?: string;
}

/**
 * The operator's fields of an existing layout, with a change. It holds for this very version of the object only: a write
 * after somebody else's is a Conflict, and the change is decided again.
 */
export function changedLayout(
  layout: FilesystemLayout,
  { nextMember, growth = {}, rounding, ...change }: LayoutFields,
): ApplyConfiguration {
  const { emergency: _engineOwned, ...spec } = layout.spec;
  const { annotations } = layout.metadata;
  const changed: Record<string, string> = {
    ...(nextMember === undefined ? {} : { [NEXT_MEMBER_ANNOTATION]: String(nextMember) }),
    ...(growth.failedAt === undefined ? {} : { [GROWTH_FAILED_ANNOTATION]: growth.failedAt }),
    ...(growth.workedAt === undefined ? {} : { [GROWTH_WORKED_ANNOTATION]: growth.workedAt }),
    ...(growth.asked === undefined ? {} : { [GROWTH_ASKED_ANNOTATION]: growth.asked }),
    ...(growth.settled === undefined ? {} : { [GROWTH_SETTLED_ANNOTATION]: growth.settled }),
    ...(rounding === undefined ? {} : { [MEMBER_ROUNDED_ANNOTATION]: rounding }),
  };
  return {
    apiVersion: API_VERSION,
    kind: FILESYSTEM_LAYOUTS.kind,
    metadata: { ...versionOf(layout), annotations: { ...ownAnnotations(annotations), ...changed } },
    spec: { ...spec, ...change },
  };
}

const OWN_ANNOTATIONS: readonly string[] = [
  RECORDS.requestedSize,
  RECORDS.initialSize,
  RECORDS.maxSize,
  RECORDS.memberClass,
  RECORDS.maxMembers,
  RECORDS.spareMembers,
  RECORDS.strategy,
  RECORDS.memberLabels,
  RECORDS.memberAnnotations,
  SELECTED_NODE_ANNOTATION,
  NEXT_MEMBER_ANNOTATION,
  GROWTH_FAILED_ANNOTATION,
  GROWTH_WORKED_ANNOTATION,
  GROWTH_ASKED_ANNOTATION,
  GROWTH_SETTLED_ANNOTATION,
  MEMBER_ROUNDED_ANNOTATION,
];

function ownAnnotations(annotations: Record<string, string> | undefined): Record<string, string> {
  return Object.fromEntries(Object.entries(annotations ?? {}).filter(([key]) => OWN_ANNOTATIONS.includes(key)));
}

/** The members of a layout, all of them asked to go. */
export function removedMembers(layout: FilesystemLayout): MemberSpec[] {
  return (layout.spec.members ?? []).map((member) => ({ ...member, state: "Removed" as const }));
}

/**
 * The Filesystem of a claim. The claim owns it, so that it goes with the claim whatever becomes of the data; a volume whose
 * claim is not known by UID (`ownedByClaim` false) would be collected at once, and gets no owner.
 */
export function filesystemOf(claim: ClaimIdentity, ownedByClaim: boolean): ApplyConfiguration {
  const owner = { apiVersion: "v1", kind: "PersistentVolumeClaim", name: claim.name, uid: claim.uid };
  return {
    apiVersion: API_VERSION,
    kind: FILESYSTEMS.kind,
    metadata: {
      namespace: claim.namespace,
      name: claim.name,
      ...(ownedByClaim ? { ownerReferences: [owner] } : {}),
    },
    spec: { claimRef: { name: claim.name, uid: claim.uid } },
  };
}
