// What the scheduler reads that one node can still take, for each StorageClass of local.tidemark.dev, and why no node will ever take any. Pure.
// A class whose parameters are refused, and a node that has reported nothing, have no figure.
import { LOCAL, SPAN } from "../../contracts/csi/driver.ts";
import { Refusal } from "../../contracts/csi/refusal.ts";
import type { NodeStorage } from "../../contracts/kinds/node-storage.ts";
import type { StorageClass } from "../../contracts/kubernetes/resources.ts";
import { LOCAL_DRIVER, TOPOLOGY_NODE, TOPOLOGY_PLACES } from "../../contracts/names.ts";
import { deviceClassOf, freeBytesOf } from "../csi/create/placement.ts";
import { type ClassParameters, largestRequestBytes, parseClassParameters } from "../csi/requests/volume-parameters.ts";

export interface WantedCapacity {
  readonly storageClassName: string;
  readonly nodeName: string;
  /** What new members can have. */
  readonly freeBytes: number;
  /** The largest request that can be met. */
  readonly maximumBytes: number;
}

export function wantedCapacities(
  classes: readonly StorageClass[],
  nodeName: string,
  storage: NodeStorage | undefined,
): WantedCapacity[] {
  return classes
    .filter(({ provisioner }) => provisioner === LOCAL_DRIVER)
    .flatMap((storageClass) => capacityOf(storageClass, nodeName, storage) ?? []);
}

function capacityOf(
  { metadata: { name: storageClassName }, parameters = {} }: StorageClass,
  nodeName: string,
  storage: NodeStorage | undefined,
): WantedCapacity | undefined {
  const ofClass = acceptedParameters(parameters);
  if (ofClass?.backend === undefined) return undefined;
  const { backend, deviceClass } = ofClass;
  const freeBytes = freeBytesOf(storage, { backend, deviceClass });
  if (freeBytes === undefined) return undefined;
  return { storageClassName, nodeName, freeBytes, maximumBytes: largestRequestBytes(freeBytes, ofClass) };
}

/** A class that no call would be accepted for is one without a figure: this decides, and never throws. */
function acceptedParameters(parameters: Readonly<Record<string, string>>): ClassParameters | undefined {
  try {
    return parseClassParameters(parameters, LOCAL);
  } catch (error) {
    if (error instanceof Refusal) return undefined;
    throw error;
  }
}

/**
 * Why no node will ever get a volume of the class as things are. The scheduler only says that no node has room, and csi-provisioner is never
 * asked: no other process reports the reason. Undefined: there may be one. `storages`: of all nodes; one that has reported nothing may have any class.
 */
export function classProblem(storageClass: StorageClass, storages: readonly NodeStorage[]): string | undefined {
  if (storageClass.provisioner === SPAN.name) return spanProblem(storageClass);
  return storageClass.provisioner === LOCAL.name ? localProblem(storageClass, storages) : undefined;
}

/** csi-provisioner compares allowedTopologies with what the driver has registered on the chosen node, and asks for no other node. */
function spanProblem({ metadata, volumeBindingMode, allowedTopologies = [] }: StorageClass): string | undefined {
  const registered: readonly string[] = [TOPOLOGY_NODE, ...TOPOLOGY_PLACES];
  const unknown = allowedTopologies.map(({ matchLabelExpressions = [] }) =>
    matchLabelExpressions.map(({ key }) => key).filter((key) => !registered.includes(key)),
  );
  const isPossible = unknown.length === 0 || unknown.some((keys) => keys.length === 0);
  if (volumeBindingMode !== "WaitForFirstConsumer" || isPossible) return undefined;
  const keys = [...new Set(unknown.flat())].join(", ");
  return `StorageClass ${metadata.name}: move ${keys} to allowedTopologies of the members' class, and to a node affinity of the pods`;
}

function localProblem(storageClass: StorageClass, storages: readonly NodeStorage[]): string | undefined {
  const { metadata, parameters = {} } = storageClass;
  try {
    return problemOf(metadata.name, parseClassParameters(parameters, LOCAL), storages);
  } catch (error) {
    // What CreateVolume would be refused with is what the claim's Event says.
    if (error instanceof Refusal) return `StorageClass ${metadata.name}: ${error.message}`;
    throw error;
  }
}

function problemOf(
  className: string,
  { backend, deviceClass }: ClassParameters,
  storages: readonly NodeStorage[],
): string | undefined {
  if (backend === undefined)
    return `StorageClass ${className} has no parameter backend; ${LOCAL.name} has: ${LOCAL.backends.join(", ")}`;
  const isPossible = storages.some(
    (one) => one.status?.deviceClasses === undefined || deviceClassOf(one, { backend, deviceClass }) !== undefined,
  );
  if (backend !== "lvm" || isPossible || storages.length === 0) return undefined;
  const which = deviceClass === undefined ? "a default device class" : `the device class "${deviceClass}"`;
  return `StorageClass ${className}: no node (${storages.length} checked) has ${which} of backend lvm (see kubectl get nodestorages -o yaml)`;
}
