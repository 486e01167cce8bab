// StorageClass parameters and what csi-provisioner adds to them, read and checked. Pure: the same text always gives the
// same answer, and nothing unknown is ignored.
import { BACKENDS, type Backend, FS_TYPES, type FsType } from "../../api/filesystem-layout.ts";
import { parseQuantity, QuantityError } from "../../units/quantity.ts";
import { Refusal } from "./refusal.ts";

export interface VolumeParameters {
  readonly backend: Backend;
  readonly fsType: FsType | undefined;
  readonly initialBytes: number | undefined;
  readonly maxBytes: number | undefined;
  readonly claimNamespace: string;
  readonly claimName: string;
}

const BACKEND = "backend";
const INITIAL_SIZE = "initialSize";
const MAX_SIZE = "maxSize";
const FS_TYPE = "csi.storage.k8s.io/fstype";
const CLAIM_NAME = "csi.storage.k8s.io/pvc/name";
const CLAIM_NAMESPACE = "csi.storage.k8s.io/pvc/namespace";
const VOLUME_NAME = "csi.storage.k8s.io/pv/name";

const USER_PARAMETERS = [BACKEND, INITIAL_SIZE, MAX_SIZE, FS_TYPE];
const KNOWN_PARAMETERS: readonly string[] = [...USER_PARAMETERS, CLAIM_NAME, CLAIM_NAMESPACE, VOLUME_NAME];

/** A refusal is always INVALID_ARGUMENT and names the parameter. */
export function parseVolumeParameters(parameters: Readonly<Record<string, string>>): VolumeParameters | Refusal {
  const unknown = Object.keys(parameters).filter((key) => !KNOWN_PARAMETERS.includes(key));
  if (unknown.length > 0)
    return invalid(
      `unknown StorageClass parameters ${unknown.sort().join(", ")}; there are: ${USER_PARAMETERS.join(", ")}`,
    );
  const backend = oneOf(parameters, BACKEND, BACKENDS);
  if (backend instanceof Refusal) return backend;
  if (backend === undefined)
    return invalid(`the StorageClass has no parameter ${BACKEND}; this version has: ${BACKENDS.join(", ")}`);
  const fsType = oneOf(parameters, FS_TYPE, FS_TYPES);
  if (fsType instanceof Refusal) return fsType;
  const initialBytes = size(parameters, INITIAL_SIZE);
  if (initialBytes instanceof Refusal) return initialBytes;
  const maxBytes = size(parameters, MAX_SIZE);
  if (maxBytes instanceof Refusal) return maxBytes;
  const { [CLAIM_NAMESPACE]: claimNamespace, [CLAIM_NAME]: claimName } = parameters;
  if (!claimNamespace || !claimName)
    return invalid(
      `${CLAIM_NAMESPACE} and ${CLAIM_NAME} are missing; run csi-provisioner with --extra-create-metadata`,
    );
  return { backend, fsType, initialBytes, maxBytes, claimNamespace, claimName };
}

function oneOf<T extends string>(
  parameters: Readonly<Record<string, string>>,
  key: string,
  values: readonly T[],
): T | undefined | Refusal {
  const text = parameters[key];
  if (text === undefined || text === "") return undefined;
  return (
    values.find((value) => value === text) ??
    invalid(`parameter ${key} is "${text}"; this version has: ${values.join(", ")}`)
  );
}

function size(parameters: Readonly<Record<string, string>>, key: string): number | undefined | Refusal {
  const text = parameters[key];
  if (text === undefined) return undefined;
  try {
    return parseQuantity(text);
  } catch (error) {
    if (error instanceof QuantityError) return invalid(`parameter ${key}: ${error.message}`);
    throw error;
  }
}

function invalid(message: string): Refusal {
  return new Refusal("INVALID_ARGUMENT", message);
}
