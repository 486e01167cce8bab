// A CreateVolumeRequest, checked in order and turned into the volume that is asked for. Pure; where it is to be and whether
// it exists already are decided by others.
import { createHash } from "node:crypto";
import type { FsType, OwnBackend, VolumeMode } from "../../api/filesystem-layout.ts";
import { fsidOf, isUUID, uuidOfHex, volumeHandleOf } from "../../api/identity.ts";
import { refusalOfMode } from "../../csi/access.ts";
import type { Driver } from "../../csi/driver.ts";
import { invalidArgument, Refusal } from "../../csi/refusal.ts";
import type { CreateVolumeRequest } from "../../gen/csi/v1/csi.ts";
import type { MemberRules } from "../member/member-rules.ts";
import { askedUse } from "./volume-capabilities.ts";
import { parseVolumeParameters } from "./volume-parameters.ts";
import { planSizes } from "./volume-size.ts";

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
  readonly claim: { readonly namespace: string; readonly name: string };
  /** The claim's UID where the volume's name carries it. */
  readonly claimUID: string | undefined;
}

const PROVISIONER_PREFIX = "pvc-";
const NAME_LIMIT_CHARACTERS = 128;
const DEFAULT_FS_TYPE: FsType = "btrfs";

export function orderOf(request: CreateVolumeRequest, driver: Driver): VolumeOrder | Refusal {
  const refusal = refusalOfName(request.name) ?? refusalOfExtras(request);
  if (refusal !== undefined) return refusal;
  const asked = askedUse(request.volumeCapabilities);
  if (asked instanceof Refusal) return asked;
  const parameters = parseVolumeParameters(request.parameters, driver);
  if (parameters instanceof Refusal) return parameters;
  const { volumeMode, fsTypes } = asked;
  const refusalOfBlock = refusalOfMode(volumeMode, parameters.backend);
  if (refusalOfBlock !== undefined) return refusalOfBlock;
  // A class that serves both modes may name a type: a raw block volume does not ask for it.
  const fsType = volumeMode === "Block" ? undefined : chooseFsType(fsTypes, parameters.fsType);
  if (fsType instanceof Refusal) return fsType;
  if (parameters.backend === "span" && fsType !== "btrfs")
    return invalidArgument(`the backend span needs btrfs, whose devices come and go online; asked for is ${fsType}`);
  const sizes = planSizes(request.capacityRange, fsType, parameters);
  if (sizes instanceof Refusal) return sizes;
  const claimUID = claimUIDOf(request.name);
  const volumeUID = claimUID ?? derivedUID(request.name);
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
    initialBytes: parameters.initialBytes,
    maxBytes: parameters.maxBytes,
    claim: { namespace: parameters.claimNamespace, name: parameters.claimName },
    claimUID,
  };
}

function refusalOfName(name: string): Refusal | undefined {
  if (name === "") return invalidArgument("the volume has no name");
  if (name.length > NAME_LIMIT_CHARACTERS)
    return invalidArgument(
      `the volume's name has ${name.length} characters, over the limit of ${NAME_LIMIT_CHARACTERS}`,
    );
  return undefined;
}

function refusalOfExtras({ volumeContentSource, mutableParameters }: CreateVolumeRequest): Refusal | undefined {
  if (volumeContentSource !== undefined)
    return invalidArgument("volumes from snapshots or other volumes (dataSource) are not supported by this backend");
  const mutable = Object.keys(mutableParameters);
  if (mutable.length > 0)
    return invalidArgument(`VolumeAttributesClass parameters are not supported: ${mutable.sort().join(", ")}`);
  return undefined;
}

function chooseFsType(ofCapabilities: readonly FsType[], ofClass: FsType | undefined): FsType | Refusal {
  const asked = [...new Set([...ofCapabilities, ...(ofClass === undefined ? [] : [ofClass])])];
  if (asked.length > 1) return invalidArgument(`several filesystem types are asked for: ${asked.join(", ")}`);
  return asked[0] ?? DEFAULT_FS_TYPE;
}

function claimUIDOf(name: string): string | undefined {
  const uid = name.startsWith(PROVISIONER_PREFIX) ? name.slice(PROVISIONER_PREFIX.length) : "";
  return isUUID(uid) ? uid : undefined;
}

/** A UUID for any other name: always the same one, so that a repeated call meets the same volume. */
function derivedUID(name: string): string {
  return uuidOfHex(createHash("sha256").update(name).digest("hex"));
}
