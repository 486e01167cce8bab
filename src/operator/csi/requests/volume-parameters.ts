// StorageClass parameters and what csi-provisioner adds to them, read and checked, and how large a volume of them is. Pure: the same text
// always gives the same answer, and nothing unknown is ignored.
import type { Driver } from "../../../contracts/csi/driver.ts";
import { invalidArgument, Refusal } from "../../../contracts/csi/refusal.ts";
import type { CapacityRange } from "../../../contracts/gen/csi/v1/csi.ts";
import { FS_TYPES, type FsType, type OwnBackend } from "../../../contracts/kinds/filesystem-layout.ts";
import {
  BACKEND_PARAMETER as BACKEND,
  MEMBER_CLASS_PARAMETER as CLASS_NAME,
  DEVICE_CLASS_PARAMETER as DEVICE_CLASS,
  INITIAL_SIZE_PARAMETER as INITIAL_SIZE,
} from "../../../contracts/names.ts";
import {
  formatBytes,
  GIB,
  MIB,
  parseQuantity,
  QuantityError,
  wholeGiB,
} from "../../../contracts/quantities/quantity.ts";
import {
  carriedKeys,
  countOf,
  MEMBERS_LIMIT,
  type MemberRules,
  parseCarriedKeys,
  STRATEGIES,
} from "../../decide/members/member-rules.ts";

/** What a StorageClass says by itself. */
export interface ClassParameters {
  readonly backend: OwnBackend | undefined;
  readonly fsType: FsType | undefined;
  readonly initialBytes: number | undefined;
  readonly maxBytes: number | undefined;
  /** Of the backend lvm; undefined: the node's default class. */
  readonly deviceClass: string | undefined;
}

interface VolumeParameters extends ClassParameters {
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

/** Throws Refusal: always INVALID_ARGUMENT, and it names the parameter. */
export function parseVolumeParameters(parameters: Parameters, driver: Driver): VolumeParameters {
  const ofClass = parseClassParameters(parameters, driver);
  const { backend } = ofClass;
  if (backend === undefined)
    throw invalidArgument(
      `the StorageClass has no parameter ${BACKEND}; ${driver.name} has: ${driver.backends.join(", ")}`,
    );
  const memberRules = backend === "span" ? parseMemberParameters(parameters) : undefined;
  const { [CLAIM_NAMESPACE]: claimNamespace, [CLAIM_NAME]: claimName } = parameters;
  if (!claimNamespace || !claimName)
    throw invalidArgument(
      `${CLAIM_NAMESPACE} and ${CLAIM_NAME} are missing; run csi-provisioner with --extra-create-metadata`,
    );
  if (!OBJECT_NAME.test(claimNamespace) || !OBJECT_NAME.test(claimName))
    throw invalidArgument(`${CLAIM_NAMESPACE} and ${CLAIM_NAME} are not names of Kubernetes objects`);
  return { ...ofClass, backend, memberRules, claimNamespace, claimName };
}

/** GetCapacity asks with the class' own parameters alone; a parameter that is not there is undefined. Throws Refusal as above. */
export function parseClassParameters(parameters: Parameters, driver: Driver): ClassParameters {
  const known = [
    ...USER_PARAMETERS,
    ...(driver.backends.includes("lvm") ? [DEVICE_CLASS] : []),
    ...(driver.backends.includes("span") ? MEMBER_PARAMETERS : []),
  ];
  const unknown = Object.keys(parameters).filter((key) => !known.includes(key) && !SIDECAR_PARAMETERS.includes(key));
  if (unknown.length > 0)
    throw invalidArgument(
      `unknown StorageClass parameters ${unknown.sort().join(", ")}; there are: ${known.join(", ")}`,
    );
  const backend = oneOf(parameters, BACKEND, driver.backends);
  const fsType = oneOf(parameters, FS_TYPE, FS_TYPES);
  const initialBytes = size(parameters, INITIAL_SIZE);
  const maxBytes = size(parameters, MAX_SIZE);
  const deviceClass = deviceClassOf(parameters, backend);
  return { backend, fsType, initialBytes, maxBytes, deviceClass };
}

function deviceClassOf(parameters: Parameters, backend: OwnBackend | undefined): string | undefined {
  const name = parameters[DEVICE_CLASS];
  if (name === undefined) return undefined;
  if (backend !== "lvm")
    throw invalidArgument(
      `parameter ${DEVICE_CLASS} is for the backend lvm, and ${BACKEND} is ${backend ?? "not set"}`,
    );
  if (DEVICE_CLASS_NAME.test(name)) return name;
  throw invalidArgument(
    `parameter ${DEVICE_CLASS} is "${name}"; a device class has at most 63 letters, digits, "_", "." and "-"`,
  );
}

function oneOf<T extends string>(parameters: Parameters, key: string, values: readonly T[]): T | undefined {
  const text = parameters[key];
  if (text === undefined || text === "") return undefined;
  const found = values.find((value) => value === text);
  if (found === undefined)
    throw invalidArgument(`parameter ${key} is "${text}"; this version has: ${values.join(", ")}`);
  return found;
}

function size(parameters: Parameters, key: string): number | undefined {
  const text = parameters[key];
  if (text === undefined) return undefined;
  try {
    return parseQuantity(text);
  } catch (error) {
    if (error instanceof QuantityError) throw invalidArgument(`parameter ${key}: ${error.message}`);
    throw error;
  }
}

const MAX_MEMBERS = "maxMembers";
const SPARE_MEMBERS = "spareMembers";
const STRATEGY = "strategy";
const LABELS = "memberLabels";
const ANNOTATIONS = "memberAnnotations";
const MEMBER_PARAMETERS: readonly string[] = [CLASS_NAME, MAX_MEMBERS, SPARE_MEMBERS, STRATEGY, LABELS, ANNOTATIONS];

/** It becomes part of a path on the API server: nothing that climbs out of it. */
export const OBJECT_NAME = /^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$/;

/** Throws Refusal: always INVALID_ARGUMENT, and it names the parameter. */
export function parseMemberParameters(parameters: Readonly<Record<string, string>>): MemberRules {
  const className = parameters[CLASS_NAME];
  if (!className)
    throw invalidArgument(
      `the StorageClass has no parameter ${CLASS_NAME}: the class, of any CSI driver, that members are made of`,
    );
  if (!OBJECT_NAME.test(className)) throw invalidArgument(`parameter ${CLASS_NAME}: "${className}" is not a name`);
  const maxMembers = countOf(parameters[MAX_MEMBERS] ?? String(MEMBERS_LIMIT), 1, MEMBERS_LIMIT);
  if (maxMembers === undefined)
    throw invalidArgument(
      `parameter ${MAX_MEMBERS} is "${parameters[MAX_MEMBERS]}"; it is a number from 1 to ${MEMBERS_LIMIT}, the spare included`,
    );
  const spareMembers = countOf(parameters[SPARE_MEMBERS] ?? "0", 0, 1);
  if (spareMembers === undefined)
    throw invalidArgument(`parameter ${SPARE_MEMBERS} is "${parameters[SPARE_MEMBERS]}"; it is 0 or 1`);
  if (spareMembers >= maxMembers)
    throw invalidArgument(`${SPARE_MEMBERS} ${spareMembers} leaves no member of ${MAX_MEMBERS} ${maxMembers} to use`);
  const asked = parameters[STRATEGY] ?? "Auto";
  const strategy = STRATEGIES.find((one) => one === asked);
  if (strategy === undefined)
    throw invalidArgument(`parameter ${STRATEGY} is "${asked}"; there are: ${STRATEGIES.join(", ")}`);
  const labels = keysOf(parameters, LABELS);
  const annotations = keysOf(parameters, ANNOTATIONS);
  const carried = carriedKeys(labels, annotations);
  return { className, maxMembers, spareMembers, strategy, ...(carried && { carried }) };
}

function keysOf(parameters: Readonly<Record<string, string>>, parameter: string): string[] {
  const keys = parseCarriedKeys(parameters[parameter] ?? "");
  if (typeof keys === "string") throw invalidArgument(`parameter ${parameter}: ${keys}`);
  return keys;
}

export interface PlannedSizes {
  /** CSI's capacity_bytes: exactly the request. */
  readonly requestedBytes: number;
  /**
   * The first device's size: a whole number of filesystem blocks, and of GiB where it is a claim of another driver's
   * class.
   */
  readonly memberBytes: number;
}

const DEFAULT_REQUEST_BYTES = GIB;
const BLOCK_BYTES = 4096;
/** Quantities up to here are whole numbers. */
const LARGEST_BYTES = 4096 * 1024 * GIB;
/** mkfs.xfs makes nothing under 300 MiB; the others need 256 MiB to be shrunk and grown safely. */
export const MINIMUM_BYTES: Readonly<Record<FsType, number>> = { btrfs: 256 * MIB, ext4: 256 * MIB, xfs: 300 * MIB };

/** Throws Refusal. */
export function planSizes(
  range: CapacityRange | undefined,
  fsType: FsType | undefined,
  { backend, initialBytes, maxBytes }: Pick<VolumeParameters, "backend" | "initialBytes" | "maxBytes">,
): PlannedSizes {
  const requestedBytes = requestedIn(range);
  if (maxBytes !== undefined && requestedBytes > maxBytes)
    throw outOfRange(
      `the request of ${formatBytes(requestedBytes)} is over the StorageClass' maxSize of ${formatBytes(maxBytes)}`,
    );
  const firstBytes = initialBytes ?? requestedBytes;
  if (firstBytes > requestedBytes)
    throw outOfRange(
      `the StorageClass' initialSize of ${formatBytes(firstBytes)} is over the request of ${formatBytes(requestedBytes)}; request at least that`,
    );
  const minimumBytes = fsType === undefined ? 1 : MINIMUM_BYTES[fsType];
  if (firstBytes < minimumBytes)
    throw outOfRange(
      `${formatBytes(firstBytes)} is too small for ${fsType ?? "a volume"}, which needs at least ${formatBytes(minimumBytes)}`,
    );
  return { requestedBytes, memberBytes: backend === "span" ? wholeGiB(firstBytes) : roundUpToBlock(firstBytes) };
}

function requestedIn(range: CapacityRange | undefined): number {
  const limitBytes = range?.limitBytes ?? 0;
  if (limitBytes < 0 || (range?.requiredBytes ?? 0) < 0)
    throw outOfRange(
      `a size of ${Math.min(limitBytes, range?.requiredBytes ?? 0)} bytes is asked for; it cannot be negative`,
    );
  const defaultBytes = limitBytes > 0 ? Math.min(DEFAULT_REQUEST_BYTES, limitBytes) : DEFAULT_REQUEST_BYTES;
  const requestedBytes = range?.requiredBytes || defaultBytes;
  if (limitBytes > 0 && requestedBytes > limitBytes)
    throw outOfRange(`${formatBytes(requestedBytes)} is over the limit of ${formatBytes(limitBytes)} in the request`);
  if (requestedBytes > LARGEST_BYTES)
    throw outOfRange(`${formatBytes(requestedBytes)} is over ${formatBytes(LARGEST_BYTES)}, the largest size there is`);
  return requestedBytes;
}

/**
 * The largest request that a node with so many free bytes can meet (CSI's maximum_volume_size): a volume begins with the class'
 * initialSize where it has one, whatever is asked for.
 */
export function largestRequestBytes(
  freeBytes: number,
  { initialBytes, maxBytes }: Pick<VolumeParameters, "initialBytes" | "maxBytes">,
): number {
  const fitting = initialBytes === undefined ? freeBytes : initialBytes <= freeBytes ? LARGEST_BYTES : 0;
  return Math.min(fitting, maxBytes ?? LARGEST_BYTES);
}

/** Devices have whole blocks; rounded up, so that a claim never gets less than it asked for. */
export function roundUpToBlock(sizeBytes: number): number {
  return Math.ceil(sizeBytes / BLOCK_BYTES) * BLOCK_BYTES;
}

function outOfRange(message: string): Refusal {
  return new Refusal("OUT_OF_RANGE", message);
}
