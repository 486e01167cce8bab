// Why no node will ever get a volume of a StorageClass as things are. The scheduler only says that no node has room, and csi-provisioner
// is never asked, so that nobody else tells the claim. Pure.
import { TOPOLOGY_NODE, TOPOLOGY_PLACES } from "../../api/names.ts";
import type { NodeStorage } from "../../api/node-storage.ts";
import { LOCAL, SPAN } from "../../csi/driver.ts";
import { Refusal } from "../../csi/refusal.ts";
import type { StorageClass } from "../../kube/resources.ts";
import { deviceClassOf } from "../csi/node-room.ts";
import { parseClassParameters } from "../csi/volume-parameters.ts";

/** Undefined: there may be one. `storages`: of all nodes; one that has reported nothing may have any class. */
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
  return (
    `StorageClass ${metadata.name}: put ${keys} into allowedTopologies of the members' class, and give the pods a node affinity to it; ` +
    `${SPAN.name} understands ${registered.join(", ")} only`
  );
}

function localProblem(
  { metadata, parameters = {} }: StorageClass,
  storages: readonly NodeStorage[],
): string | undefined {
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
