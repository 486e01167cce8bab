// StorageClass parameters and what csi-provisioner adds to them, read and checked. Pure: the same text always gives the
// same answer, and nothing unknown is ignored.
import { FS_TYPES, type FsType, type OwnBackend } from "../../api/filesystem-layout.ts";
import {
  BACKEND_PARAMETER as BACKEND,
  DEVICE_CLASS_PARAMETER as DEVICE_CLASS,
  INITIAL_SIZE_PARAMETER as INITIAL_SIZE,
} from "../../csi/class-parameters.ts";
import type { Driver } from "../../csi/driver.ts";
import { invalidArgument, Refusal } from "../../csi/refusal.ts";
import { parseQuantity, QuantityError } from "../../units/quantity.ts";
import type { MemberRules } from "../member/member-rules.ts";
import { MEMBER_PARAMETERS, OBJECT_NAME, parseMemberParameters } from "./member-parameters.ts";

/** What a StorageClass says by itself. */
export interface ClassParameters {
  readonly backend: OwnBackend | undefined;
  readonly fsType: FsType | undefined;
  readonly initialBytes: number | undefined;
  readonly maxBytes: number | undefined;
  /** Of the backend lvm; undefined: the node's default class. */
  readonly deviceClass: string | undefined;
}

export interface VolumeParameters extends ClassParameters {
  readonly backend: OwnBackend;
  /** Of the backend span. */
  readonly memberRules: MemberRules | undefined;
  readonly claimNamespace: string;
  readonly claimName: string;
}

const MAX_SIZE = "maxSize";
const FS_TYPE = "csi.storage.k8s.io/fstype";
const CLAIM_NAME = "csi.storage.k8s.io/pvc/name";
const CLAIM_NAMESPACE = "csi.storage.k8s.io/pvc/namespace";
const VOLUME_NAME = "csi.storage.k8s.io/pv/name";

const USER_PARAMETERS = [BACKEND, INITIAL_SIZE, MAX_SIZE, FS_TYPE];
const SIDECAR_PARAMETERS = [CLAIM_NAME, CLAIM_NAMESPACE, VOLUME_NAME];

/** As lvmd's configuration names its classes. */
const DEVICE_CLASS_NAME = /^[A-Za-z0-9_.][-A-Za-z0-9_.]{0,62}$/;

type Parameters = Readonly<Record<string, string>>;

/** A refusal is always INVALID_ARGUMENT and names the parameter. */
export function parseVolumeParameters(parameters: Parameters, driver: Driver): VolumeParameters | Refusal {
  const ofClass = parseClassParameters(parameters, driver);
  if (ofClass instanceof Refusal) return ofClass;
  const { backend } = ofClass;
  if (backend === undefined)
    return invalidArgument(
      `the StorageClass has no parameter ${BACKEND}; ${driver.name} has: ${driver.backends.join(", ")}`,
    );
  const memberRules = backend === "span" ? parseMemberParameters(parameters) : undefined;
  if (memberRules instanceof Refusal) return memberRules;
  const { [CLAIM_NAMESPACE]: claimNamespace, [CLAIM_NAME]: claimName } = parameters;
  if (!claimNamespace || !claimName)
    return invalidArgument(
      `${CLAIM_NAMESPACE} and ${CLAIM_NAME} are missing; run csi-provisioner with --extra-create-metadata`,
    );
  if (!OBJECT_NAME.test(claimNamespace) || !OBJECT_NAME.test(claimName))
    return invalidArgument(`${CLAIM_NAMESPACE} and ${CLAIM_NAME} are no names of Kubernetes objects`);
  return { ...ofClass, backend, memberRules, claimNamespace, claimName };
}

/** GetCapacity asks with the class' own parameters alone; a parameter that is not there is undefined. */
export function parseClassParameters(parameters: Parameters, driver: Driver): ClassParameters | Refusal {
  const known = [
    ...USER_PARAMETERS,
    ...(driver.backends.includes("lvm") ? [DEVICE_CLASS] : []),
    ...(driver.backends.includes("span") ? MEMBER_PARAMETERS : []),
  ];
  const unknown = Object.keys(parameters).filter((key) => !known.includes(key) && !SIDECAR_PARAMETERS.includes(key));
  if (unknown.length > 0)
    return invalidArgument(
      `unknown StorageClass parameters ${unknown.sort().join(", ")}; there are: ${known.join(", ")}`,
    );
  const backend = oneOf(parameters, BACKEND, driver.backends);
  if (backend instanceof Refusal) return backend;
  const fsType = oneOf(parameters, FS_TYPE, FS_TYPES);
  if (fsType instanceof Refusal) return fsType;
  const initialBytes = size(parameters, INITIAL_SIZE);
  if (initialBytes instanceof Refusal) return initialBytes;
  const maxBytes = size(parameters, MAX_SIZE);
  if (maxBytes instanceof Refusal) return maxBytes;
  const deviceClass = deviceClassOf(parameters, backend);
  if (deviceClass instanceof Refusal) return deviceClass;
  return { backend, fsType, initialBytes, maxBytes, deviceClass };
}

function deviceClassOf(parameters: Parameters, backend: OwnBackend | undefined): string | undefined | Refusal {
  const name = parameters[DEVICE_CLASS];
  if (name === undefined) return undefined;
  if (backend !== "lvm")
    return invalidArgument(
      `parameter ${DEVICE_CLASS} is for the backend lvm, and ${BACKEND} is ${backend ?? "not set"}`,
    );
  if (DEVICE_CLASS_NAME.test(name)) return name;
  return invalidArgument(
    `parameter ${DEVICE_CLASS} is "${name}"; a device class has at most 63 letters, digits, "_", "." and "-"`,
  );
}

function oneOf<T extends string>(parameters: Parameters, key: string, values: readonly T[]): T | undefined | Refusal {
  const text = parameters[key];
  if (text === undefined || text === "") return undefined;
  return (
    values.find((value) => value === text) ??
    invalidArgument(`parameter ${key} is "${text}"; this version has: ${values.join(", ")}`)
  );
}

function size(parameters: Parameters, key: string): number | undefined | Refusal {
  const text = parameters[key];
  if (text === undefined) return undefined;
  try {
    return parseQuantity(text);
  } catch (error) {
    if (error instanceof QuantityError) return invalidArgument(`parameter ${key}: ${error.message}`);
    throw error;
  }
}
