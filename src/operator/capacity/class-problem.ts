// Why no node will ever get a volume of a StorageClass as things are. The scheduler only says that no node has room, and csi-provisioner
// is never asked, so that nobody else tells the claim. Pure.
import type { NodeStorage } from "../../api/node-storage.ts";
import { LOCAL } from "../../csi/driver.ts";
import { Refusal } from "../../csi/refusal.ts";
import type { StorageClass } from "../../kube/resources.ts";
import { deviceClassOf } from "../csi/node-room.ts";
import { parseClassParameters } from "../csi/volume-parameters.ts";

/** Undefined: there may be one. `storages`: of all nodes; one that has reported nothing may have any class. */
export function classProblem(
  { metadata, provisioner, parameters = {} }: StorageClass,
  storages: readonly NodeStorage[],
): string | undefined {
  if (provisioner !== LOCAL.name) return undefined;
  const ofClass = parseClassParameters(parameters, LOCAL);
  if (ofClass instanceof Refusal) return `StorageClass ${metadata.name}: ${ofClass.message}`;
  const { backend, deviceClass } = ofClass;
  if (backend === undefined)
    return `StorageClass ${metadata.name} has no parameter backend; ${LOCAL.name} has: ${LOCAL.backends.join(", ")}`;
  const isPossible = storages.some(
    (one) => one.status?.deviceClasses === undefined || deviceClassOf(one, { backend, deviceClass }) !== undefined,
  );
  if (backend !== "lvm" || isPossible || storages.length === 0) return undefined;
  const which = deviceClass === undefined ? "a default device class" : `the device class "${deviceClass}"`;
  return `StorageClass ${metadata.name}: none of ${storages.length} nodes has ${which} of backend lvm (kubectl get nodestorages -o yaml lists what they have)`;
}
