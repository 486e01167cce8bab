// A CreateVolumeRequest, checked in order and turned into the volume that is asked for. Pure; where it is to be and whether
// it exists already are decided by others.
import type { FsType, OwnBackend, VolumeMode } from "../../api/filesystem-layout.ts";
import { fsidOf, volumeHandleOf } from "../../api/identity.ts";
import { refusalOfMode } from "../../csi/access.ts";
import type { Driver } from "../../csi/driver.ts";
import { invalidArgument, Refusal } from "../../csi/refusal.ts";
import type { CreateVolumeRequest } from "../../gen/csi/v1/csi.ts";
import type { MemberRules } from "../member/member-rules.ts";
import { sourceNameOf } from "./copy-source.ts";
import { refusalOfName, uidOfName } from "./named-uid.ts";
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
  /** Of the backend lvm: the LogicalVolume that it begins as a copy of; undefined: it begins empty. */
  readonly source: string | undefined;
  readonly claim: { readonly namespace: string; readonly name: string };
  /** The claim's UID where the volume's name carries it. */
  readonly claimUID: string | undefined;
}

const PROVISIONER_PREFIX = "pvc-";
const DEFAULT_FS_TYPE: FsType = "btrfs";

export function orderOf(request: CreateVolumeRequest, driver: Driver): VolumeOrder | Refusal {
  const refusal = refusalOfName("volume", request.name) ?? refusalOfExtras(request);
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
  const source = sourceNameOf(request.volumeContentSource);
  if (source instanceof Refusal) return source;
  if (source !== undefined && parameters.backend !== "lvm")
    return invalidArgument(
      `volumes from snapshots or other volumes (dataSource) need the backend lvm; asked for is ${parameters.backend}`,
    );
  const sizes = planSizes(request.capacityRange, fsType, parameters);
  if (sizes instanceof Refusal) return sizes;
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

function refusalOfExtras({ mutableParameters }: CreateVolumeRequest): Refusal | undefined {
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
