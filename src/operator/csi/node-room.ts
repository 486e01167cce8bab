// Whether a node has room for a new member, by what its agent reported last (NodeStorage). A node that has reported nothing is
// not held to be full; the agent itself looks again before it makes the member. Pure.
import type { OwnBackend } from "../../api/filesystem-layout.ts";
import type { NodeStorage } from "../../api/node-storage.ts";
import { Refusal } from "../../csi/refusal.ts";
import { formatBytes, parseQuantity } from "../../units/quantity.ts";

/** Where members are asked for; `deviceClass` undefined: the node's default class of the backend. */
export interface WantedClass {
  readonly backend: OwnBackend;
  readonly deviceClass: string | undefined;
}

type DeviceClass = NonNullable<NonNullable<NodeStorage["status"]>["deviceClasses"]>[number];

/** Undefined: not reported, or the node has no such class. The backend loop has one class, which needs no name and no mark. */
export function deviceClassOf(storage: NodeStorage | undefined, wanted: WantedClass): DeviceClass | undefined {
  return classesOf(storage, wanted).find(
    ({ name, default: isDefault }) =>
      wanted.backend !== "lvm" || (wanted.deviceClass === undefined ? isDefault === true : name === wanted.deviceClass),
  );
}

/** Undefined: not reported. A class that the node does not have, or that nothing can be made of now, has nothing free. */
export function freeBytesOf(storage: NodeStorage | undefined, wanted: WantedClass): number | undefined {
  const found = deviceClassOf(storage, wanted);
  if (found !== undefined) return found.problem === undefined ? parseQuantity(found.free) : 0;
  return wanted.backend === "lvm" && storage?.status?.deviceClasses !== undefined ? 0 : undefined;
}

/** RESOURCE_EXHAUSTED lets csi-provisioner ask the scheduler for another node. */
export function refusalOfRoom(
  nodeName: string,
  storage: NodeStorage | undefined,
  wanted: WantedClass,
  memberBytes: number,
): Refusal | undefined {
  const freeBytes = freeBytesOf(storage, wanted);
  if (freeBytes === undefined || memberBytes <= freeBytes) return undefined;
  const found = deviceClassOf(storage, wanted);
  if (found === undefined) return exhausted(`node ${nodeName} has no ${lackingClass(storage, wanted)}`);
  if (found.problem !== undefined)
    return exhausted(`nothing can be made in device class ${found.name} of node ${nodeName} now: ${found.problem}`);
  const pool = found.thinPool;
  const filled =
    pool === undefined
      ? ""
      : ` (its thin pool has ${pool.dataPercent}% of its data and ${pool.metadataPercent}% of its metadata in use)`;
  return exhausted(
    `node ${nodeName} has ${formatBytes(freeBytes)} left for new members${filled}, and the volume begins with ${formatBytes(memberBytes)}; free space there, or lower the request or the StorageClass' initialSize`,
  );
}

function lackingClass(storage: NodeStorage | undefined, wanted: WantedClass): string {
  const names = classesOf(storage, wanted).map(({ name }) => name);
  const which = wanted.deviceClass === undefined ? "default device class" : `device class "${wanted.deviceClass}"`;
  return `${which} of backend ${wanted.backend}; it has: ${names.join(", ") || "none"}`;
}

function classesOf(storage: NodeStorage | undefined, { backend }: WantedClass): DeviceClass[] {
  return storage?.status?.deviceClasses?.filter((one) => one.backend === backend) ?? [];
}

function exhausted(message: string): Refusal {
  return new Refusal("RESOURCE_EXHAUSTED", message);
}
