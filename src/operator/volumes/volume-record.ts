// What identifies a volume and never changes after CreateVolume. It is written three times, so that no one loss takes it:
// on the FilesystemLayout, in the PersistentVolume's volumeAttributes, and (fsid) in the filesystem itself. Pure.

import { driverNamed, driverOf } from "../../contracts/csi/driver.ts";
import { fsidOf, isUUID, volumeHandleOf } from "../../contracts/identity.ts";
import {
  FS_TYPES,
  type FsType,
  OWN_BACKENDS,
  type OwnBackend,
  VOLUME_MODES,
  type VolumeMode,
} from "../../contracts/kinds/filesystem-layout.ts";
import type { PersistentVolume } from "../../contracts/kubernetes/resources.ts";
import { RECORDS, TOPOLOGY_NODE } from "../../contracts/names.ts";
import { formatQuantity, parseQuantity, QuantityError } from "../../contracts/quantities/quantity.ts";
import { type MemberRules, recordsOfRules, rulesOfRecords } from "../decide/members/member-rules.ts";
import {
  type LogicalVolumeRecord,
  logicalVolumeOfRecords,
  recordsOfLogicalVolume,
} from "../lvm/logical-volume-state.ts";

export interface ClaimIdentity {
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
}

/** The sizes as they were asked for, which do not say how large the volume is now. */
export interface OrderedSizes {
  readonly requestedBytes: number | undefined;
  readonly initialBytes: number | undefined;
  readonly maxBytes: number | undefined;
}

export interface VolumeRecord extends OrderedSizes {
  readonly handle: string;
  readonly volumeUID: string;
  readonly fsid: string;
  readonly backend: OwnBackend;
  readonly volumeMode: VolumeMode;
  /** Undefined: a raw block volume has none. */
  readonly fsType: FsType | undefined;
  /** The node that has the data; undefined for volumes that move from node to node. */
  readonly nodeName: string | undefined;
  /** Of the backend span. */
  readonly memberRules: MemberRules | undefined;
  /** Of the backend lvm, once it is made. */
  readonly logicalVolume: LogicalVolumeRecord | undefined;
  readonly claim: ClaimIdentity;
}

/** CSI volume_context: it becomes the PersistentVolume's volumeAttributes, which no client can change afterwards. */
export function volumeContextOf(record: VolumeRecord): Record<string, string> {
  return {
    [RECORDS.volumeUID]: record.volumeUID,
    [RECORDS.fsid]: record.fsid,
    ...(record.fsType === undefined ? {} : { [RECORDS.fsType]: record.fsType }),
    ...(record.volumeMode === "Block" ? { [RECORDS.volumeMode]: record.volumeMode } : {}),
    [RECORDS.backend]: record.backend,
    ...sizeRecordsOf(record),
    ...recordsOfRules(record.memberRules),
    ...recordsOfLogicalVolume(record.logicalVolume),
  };
}

export function sizeRecordsOf(sizes: OrderedSizes): Record<string, string> {
  const records: Record<string, string> = {};
  if (sizes.requestedBytes !== undefined) records[RECORDS.requestedSize] = formatQuantity(sizes.requestedBytes);
  if (sizes.initialBytes !== undefined) records[RECORDS.initialSize] = formatQuantity(sizes.initialBytes);
  if (sizes.maxBytes !== undefined) records[RECORDS.maxSize] = formatQuantity(sizes.maxBytes);
  return records;
}

/** The inverse of sizeRecordsOf; a size that cannot be read is left out, since it orders nothing then. */
export function sizesOfRecords(records: Readonly<Record<string, string>> | undefined): OrderedSizes {
  return {
    requestedBytes: bytesOrUndefined(records?.[RECORDS.requestedSize]),
    initialBytes: bytesOrUndefined(records?.[RECORDS.initialSize]),
    maxBytes: bytesOrUndefined(records?.[RECORDS.maxSize]),
  };
}

/** Says whether a PersistentVolume is one of ours. */
export function isOurVolume(volume: PersistentVolume): boolean {
  return driverNamed(volume.spec.csi?.driver) !== undefined;
}

/** What the records of a volume lack before it can be rebuilt from them; each entry names it. */
export interface IncompleteRecord {
  readonly missing: readonly string[];
}

export function isIncomplete(record: object): record is IncompleteRecord {
  return "missing" in record;
}

/** The record on a PersistentVolume. Nothing is guessed: whatever is absent or contradicts the handle counts as missing. */
export function recordOfPersistentVolume(volume: PersistentVolume): VolumeRecord | IncompleteRecord {
  const attributes = volume.spec.csi?.volumeAttributes ?? {};
  const handle = volume.spec.csi?.volumeHandle ?? "";
  const uid = attributes[RECORDS.volumeUID] ?? "";
  const ofDriver = driverNamed(volume.spec.csi?.driver)?.backends;
  const found = {
    volumeUID: isUUID(uid) && volumeHandleOf(uid) === handle ? uid : undefined,
    fsid: isUUID(uid) && attributes[RECORDS.fsid] === fsidOf(uid) ? fsidOf(uid) : undefined,
    fsType: FS_TYPES.find((fsType) => fsType === attributes[RECORDS.fsType]),
    volumeMode: modeOf(volume, attributes[RECORDS.volumeMode] ?? "Filesystem"),
    backend: OWN_BACKENDS.find((one) => one === attributes[RECORDS.backend] && ofDriver?.includes(one)),
    nodeName: nodeNameOf(volume),
    memberRules: rulesOfRecords(attributes),
    logicalVolume: logicalVolumeOfRecords(attributes),
    claim: claimIdentityOf(volume),
  };
  const { volumeUID, fsid, fsType, volumeMode, backend, logicalVolume, claim } = found;
  const missing = missingOf(found);
  if (!volumeUID || !fsid || !volumeMode || !backend || !claim || missing.length > 0) return { missing };
  const { nodeName, memberRules } = driverOf(backend).attaches ? { ...found, nodeName: undefined } : found;
  const ordered = { ...sizesOfRecords(attributes), memberRules, logicalVolume, claim };
  return { handle, volumeUID, fsid, volumeMode, fsType, backend, nodeName, ...ordered };
}

/** Of spec: keys with a slash are those of csi.volumeAttributes. */
const FIELD_OF = {
  volumeUID: RECORDS.volumeUID,
  fsid: RECORDS.fsid,
  fsType: RECORDS.fsType,
  volumeMode: `${RECORDS.volumeMode} as in volumeMode`,
  backend: RECORDS.backend,
  nodeName: `nodeAffinity on ${TOPOLOGY_NODE}`,
  memberRules: RECORDS.memberClass,
  logicalVolume: `${RECORDS.logicalVolume} and ${RECORDS.deviceClass}`,
  claim: "claimRef",
} as const;

const NOT_NEEDED: Readonly<Record<OwnBackend, readonly (keyof typeof FIELD_OF)[]>> = {
  loop: ["memberRules", "logicalVolume"],
  lvm: ["memberRules"],
  span: ["nodeName", "logicalVolume"],
};

function missingOf(found: Readonly<Record<keyof typeof FIELD_OF, unknown>>): string[] {
  const notNeeded: readonly string[] = NOT_NEEDED[(found.backend as OwnBackend | undefined) ?? "loop"];
  return (Object.keys(FIELD_OF) as (keyof typeof FIELD_OF)[])
    .filter((field) => found[field] === undefined && !notNeeded.includes(field))
    .filter((field) => field !== "fsType" || found.volumeMode !== "Block")
    .map((field) => FIELD_OF[field]);
}

/** Both say it, and neither can be changed; where they differ one was forged, and a device with data could be formatted. */
function modeOf({ spec }: PersistentVolume, recorded: string): VolumeMode | undefined {
  const { volumeMode = "Filesystem" } = spec;
  return recorded === volumeMode ? VOLUME_MODES.find((mode) => mode === recorded) : undefined;
}

/** The claim that a PersistentVolume is bound to. */
export function claimIdentityOf(volume: PersistentVolume): ClaimIdentity | undefined {
  const { namespace, name, uid } = volume.spec.claimRef ?? {};
  return namespace && name && uid ? { namespace, name, uid } : undefined;
}

function nodeNameOf(volume: PersistentVolume): string | undefined {
  const terms = volume.spec.nodeAffinity?.required?.nodeSelectorTerms ?? [];
  const names = terms.flatMap((term) =>
    (term.matchExpressions ?? [])
      .filter(({ key, operator }) => key === TOPOLOGY_NODE && operator === "In")
      .flatMap(({ values }) => values ?? []),
  );
  return names.length === 1 ? names[0] : undefined;
}

function bytesOrUndefined(text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  try {
    return parseQuantity(text);
  } catch (error) {
    if (error instanceof QuantityError) return undefined;
    throw error;
  }
}
