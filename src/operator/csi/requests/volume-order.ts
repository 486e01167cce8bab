// A CreateVolumeRequest, checked in order and turned into the volume that is asked for, and its capabilities as one use. Pure; where it
// is to be and whether it exists already are decided by others.
import { createHash } from "node:crypto";
import { type Access, accessOf, requireMode } from "../../../contracts/csi/access.ts";
import type { Driver } from "../../../contracts/csi/driver.ts";
import { invalidArgument, Refusal } from "../../../contracts/csi/refusal.ts";
import type { CreateVolumeRequest, VolumeCapability, VolumeContentSource } from "../../../contracts/gen/csi/v1/csi.ts";
import {
  fsidOf,
  isUUID,
  shownVolumeId,
  snapshotUIDOf,
  uuidOfHex,
  volumeHandleOf,
  volumeUIDOf,
} from "../../../contracts/identity.ts";
import { FS_TYPES, type FsType, type OwnBackend, type VolumeMode } from "../../../contracts/kinds/filesystem-layout.ts";
import { LOGICAL_VOLUMES } from "../../../contracts/kinds/logical-volume.ts";
import type { MemberRules } from "../../decide/members/member-rules.ts";
import { parseVolumeParameters, planSizes } from "./volume-parameters.ts";

export interface VolumeOrder {
  readonly handle: string;
  readonly volumeUID: string;
  readonly fsid: string;
  readonly backend: OwnBackend;
  readonly volumeMode: VolumeMode;
  /** Undefined: a raw block volume has none. */
  readonly fsType: FsType | undefined;
  readonly requestedBytes: number;
  readonly initialBytes: number | undefined;
  readonly maxBytes: number | undefined;
  readonly memberBytes: number;
  /** Of the backend span. */
  readonly memberRules: MemberRules | undefined;
  /** Of the backend lvm; undefined: the node's default class. */
  readonly deviceClass: string | undefined;
  /** Of the backend lvm: the LogicalVolume that it begins as a copy of; undefined: it begins empty. */
  readonly source: string | undefined;
  readonly claim: { readonly namespace: string; readonly name: string };
  /** The claim's UID where the volume's name carries it. */
  readonly claimUID: string | undefined;
}

const PROVISIONER_PREFIX = "pvc-";
const DEFAULT_FS_TYPE: FsType = "btrfs";

/** The name of its LogicalVolume; undefined: the volume begins empty. */
function sourceNameOf(source: VolumeContentSource | undefined): string | undefined {
  if (source === undefined) return undefined;
  const { type } = source;
  if (type === undefined) throw invalidArgument("the volume content source is neither a snapshot nor a volume");
  const id = type.$case === "snapshot" ? type.value.snapshotId : type.value.volumeId;
  if (id === "") throw invalidArgument(`the ${type.$case} that the volume is to be made of has no id`);
  const uid = type.$case === "snapshot" ? snapshotUIDOf(id) : volumeUIDOf(id);
  if (uid === undefined) throw noSource(id, `it does not name a ${type.$case} of ${LOGICAL_VOLUMES.group}`);
  return id;
}

/** Throws Refusal. */
export function orderOf(request: CreateVolumeRequest, driver: Driver): VolumeOrder {
  requireName("volume", request.name);
  refuseExtras(request);
  const { volumeMode, fsTypes } = askedUse(request.volumeCapabilities);
  const parameters = parseVolumeParameters(request.parameters, driver);
  requireMode(volumeMode, parameters.backend);
  // A class that serves both modes may name a type: a raw block volume does not ask for it.
  const fsType = volumeMode === "Block" ? undefined : chooseFsType(fsTypes, parameters.fsType);
  if (parameters.backend === "span" && fsType !== "btrfs")
    throw invalidArgument(`the backend span needs btrfs, whose devices come and go online; asked for is ${fsType}`);
  const source = sourceNameOf(request.volumeContentSource);
  if (source !== undefined && parameters.backend !== "lvm")
    throw invalidArgument(
      `volumes from snapshots or other volumes (dataSource) need the backend lvm; asked for is ${parameters.backend}`,
    );
  const sizes = planSizes(request.capacityRange, fsType, parameters);
  const { uid: volumeUID, isCarried } = uidOfName(PROVISIONER_PREFIX, request.name, request.name);
  return {
    handle: volumeHandleOf(volumeUID),
    volumeUID,
    fsid: fsidOf(volumeUID),
    backend: parameters.backend,
    volumeMode,
    fsType,
    ...sizes,
    memberRules: parameters.memberRules,
    deviceClass: parameters.deviceClass,
    source,
    initialBytes: parameters.initialBytes,
    maxBytes: parameters.maxBytes,
    claim: { namespace: parameters.claimNamespace, name: parameters.claimName },
    claimUID: isCarried ? volumeUID : undefined,
  };
}

function refuseExtras({ mutableParameters }: CreateVolumeRequest): void {
  const mutable = Object.keys(mutableParameters);
  if (mutable.length > 0)
    throw invalidArgument(`VolumeAttributesClass parameters are not supported: ${mutable.sort().join(", ")}`);
}

function chooseFsType(ofCapabilities: readonly FsType[], ofClass: FsType | undefined): FsType {
  const asked = [...new Set([...ofCapabilities, ...(ofClass === undefined ? [] : [ofClass])])];
  if (asked.length > 1) throw invalidArgument(`several filesystem types are asked for: ${asked.join(", ")}`);
  return asked[0] ?? DEFAULT_FS_TYPE;
}

export function noSource(id: string, why: string): Refusal {
  return new Refusal("NOT_FOUND", `there is no "${shownVolumeId(id)}" to copy: ${why}`);
}

const NAME_LIMIT_BYTES = 128;

/** `isCarried`: it is the one in the name, behind the sidecar's prefix. */
interface NamedUID {
  readonly uid: string;
  readonly isCarried: boolean;
}

/**
 * The UUID of what CSI names: the sidecars put one into the name, and any other name always gives the same, so that a repeated call meets the
 * same object. `seed`: of one that is not carried; it keeps a volume and a snapshot of one name apart.
 */
export function uidOfName(prefix: string, name: string, seed: string): NamedUID {
  const carried = name.startsWith(prefix) ? name.slice(prefix.length) : "";
  if (isUUID(carried)) return { uid: carried, isCarried: true };
  return { uid: uuidOfHex(createHash("sha256").update(seed).digest("hex")), isCarried: false };
}

/** Throws Refusal. */
export function requireName(what: "volume" | "snapshot", name: string): void {
  if (name === "") throw invalidArgument(`the ${what} has no name`);
  const bytes = Buffer.byteLength(name);
  if (bytes > NAME_LIMIT_BYTES)
    throw invalidArgument(`the ${what}'s name has ${bytes} bytes, over the limit of ${NAME_LIMIT_BYTES}`);
  if ([...name].some(isForbidden)) throw invalidArgument(`the ${what}'s name has control characters`);
}

/** By the specification of CSI, in CreateVolumeRequest.name: control characters but tab, line feed and carriage return. */
function isForbidden(character: string): boolean {
  const code = character.charCodeAt(0);
  return (code < 0x20 && !"\t\n\r".includes(character)) || (code >= 0x7f && code <= 0x9f);
}

export interface AskedUse {
  readonly volumeMode: VolumeMode;
  /** The filesystem types that the capabilities name, none twice: csi-provisioner hands the class' type over in them. */
  readonly fsTypes: readonly FsType[];
}

/** Throws Refusal. */
export function askedUse(capabilities: readonly VolumeCapability[]): AskedUse {
  const fsTypes = new Set<FsType>();
  const modes = new Set<VolumeMode>();
  for (const capability of capabilities) {
    const access = accessOf(capability);
    const fsType = fsTypeOf(access);
    if (fsType !== undefined) fsTypes.add(fsType);
    modes.add(access.volumeMode);
  }
  const [volumeMode, ...others] = modes;
  if (volumeMode === undefined) throw invalidArgument("no volume capability is given");
  if (others.length > 0)
    throw invalidArgument(
      "a filesystem and a raw block volume are asked for at once; a volume is the one or the other",
    );
  return { volumeMode, fsTypes: [...fsTypes] };
}

function fsTypeOf({ fsType }: Access): FsType | undefined {
  if (fsType === "") return undefined;
  const known = FS_TYPES.find((one) => one === fsType);
  if (known === undefined) throw invalidArgument(`filesystem type "${fsType}"; there are: ${FS_TYPES.join(", ")}`);
  return known;
}
