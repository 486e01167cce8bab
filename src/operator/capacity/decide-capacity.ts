// What the scheduler is told that one node can still take, for each StorageClass of local.tidemark.dev. Pure. A class whose parameters
// are refused, and a node that has reported nothing, have no figure.
import { LOCAL_DRIVER } from "../../api/names.ts";
import type { NodeStorage } from "../../api/node-storage.ts";
import { LOCAL } from "../../csi/driver.ts";
import { Refusal } from "../../csi/refusal.ts";
import type { StorageClass } from "../../kube/resources.ts";
import { freeBytesOf } from "../csi/node-room.ts";
import { parseClassParameters } from "../csi/volume-parameters.ts";
import { largestRequestBytes } from "../csi/volume-size.ts";

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
  const ofClass = parseClassParameters(parameters, LOCAL);
  if (ofClass instanceof Refusal || ofClass.backend === undefined) return undefined;
  const { backend, deviceClass } = ofClass;
  const freeBytes = freeBytesOf(storage, { backend, deviceClass });
  if (freeBytes === undefined) return undefined;
  return { storageClassName, nodeName, freeBytes, maximumBytes: largestRequestBytes(freeBytes, ofClass) };
}
