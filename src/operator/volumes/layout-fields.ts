// The part of a FilesystemLayout and of a Filesystem that the operator owns, as server-side-apply configurations. An apply
// gives up every owned field that it leaves out, so each write carries all of them. Pure.
import {
  type ConsolidationNeed,
  FILESYSTEMS,
  type Filesystem,
  type FilesystemStatus,
} from "../../contracts/kinds/filesystem.ts";
import {
  FILESYSTEM_LAYOUTS,
  type FilesystemLayout,
  type FilesystemLayoutSpec,
  type MemberSpec,
} from "../../contracts/kinds/filesystem-layout.ts";
import type { LastTrim } from "../../contracts/kinds/trim.ts";
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
} from "../../contracts/names.ts";
import { formatQuantity } from "../../contracts/quantities/quantity.ts";
import { type ConditionType, datedCondition, type Statement } from "../../contracts/schema/condition.ts";
import type { ApplyConfiguration } from "../../platform/kube/client/client.ts";
import { versionOf } from "../../platform/kube/client/writes.ts";
import { recordsOfRules } from "../decide/members/member-rules.ts";
import type { LogicalVolumeRecord } from "../lvm/logical-volume-state.ts";
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

/** The member of a loop volume. `memberBytes` undefined: as found on the node, for a layout that is recreated. */
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
 * The operator's fields of an existing layout, with a change. It holds for this very version of the object only. A
 * write after another process has written is a Conflict, and the change is decided again.
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

export interface FilesystemFacts {
  readonly handle: string;
  /** Undefined: not known, and what was said last stands. */
  readonly capacityBytes: number | undefined;
  readonly nodeName: string | undefined;
  readonly lastTrim: LastTrim | undefined;
  /** Which pod wants it to have fewer members; undefined: none does. */
  readonly consolidation: ConsolidationNeed | undefined;
  readonly ready: Statement;
  /** Undefined: it is not so, for what `ready` says. */
  readonly reconciling: Statement | undefined;
  readonly stalled: Statement | undefined;
}

export function filesystemStatus(filesystem: Filesystem, facts: FilesystemFacts, nowMs: number): ApplyConfiguration {
  const { generation } = filesystem.metadata;
  const { handle, capacityBytes, nodeName, lastTrim, consolidation } = facts;
  const capacity = capacityBytes === undefined ? filesystem.status?.capacity : formatQuantity(capacityBytes);
  return {
    apiVersion: API_VERSION,
    kind: filesystem.kind,
    metadata: versionOf(filesystem),
    status: {
      observedGeneration: generation,
      ...(capacity === undefined ? {} : { capacity }),
      volumeHandle: handle,
      ...(nodeName === undefined ? {} : { nodeName }),
      ...(lastTrim === undefined ? {} : { lastTrim }),
      ...(consolidation === undefined ? {} : { consolidation }),
      conditions: statementsOf(facts).map((statement) =>
        datedCondition(statement, filesystem.status?.conditions, generation, nowMs),
      ),
    },
  };
}

/** What of a status is the operator's: all but what the policy-engine says. */
export function saidByOperator(status: Filesystem["status"]): Omit<FilesystemStatus, "scaling"> {
  const { scaling: _engines, ...own } = status ?? {};
  return own;
}

/** In this order: the column State shows the reason of the first that is true. */
function statementsOf({ ready, reconciling, stalled }: FilesystemFacts): Statement[] {
  const quiet = (type: ConditionType): Statement => ({ ...ready, type, status: "False" });
  return [stalled ?? quiet("Stalled"), reconciling ?? quiet("Reconciling"), ready];
}
