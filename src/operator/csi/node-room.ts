// Whether a node has room for a new member, by what its agent reported last (NodeStorage). A node that has reported nothing is
// not held to be full; the agent itself looks again before it makes the member. Pure.
import type { OwnBackend } from "../../api/filesystem-layout.ts";
import type { NodeStorage } from "../../api/node-storage.ts";
import { Refusal } from "../../csi/refusal.ts";
import { formatBytes, parseQuantity } from "../../units/quantity.ts";

/** Undefined: not reported. */
export function freeBytesOf(storage: NodeStorage | undefined, backend: OwnBackend): number | undefined {
  const free = storage?.status?.deviceClasses?.find((deviceClass) => deviceClass.backend === backend)?.free;
  return free === undefined ? undefined : parseQuantity(free);
}

/** RESOURCE_EXHAUSTED lets csi-provisioner ask the scheduler for another node. */
export function refusalOfRoom(
  nodeName: string,
  freeBytes: number | undefined,
  memberBytes: number,
): Refusal | undefined {
  if (freeBytes === undefined || memberBytes <= freeBytes) return undefined;
  return new Refusal(
    "RESOURCE_EXHAUSTED",
    `node ${nodeName} has ${formatBytes(freeBytes)} left for new members, and the volume begins with ${formatBytes(memberBytes)}; free space there, or lower the request or the StorageClass' initialSize`,
  );
}
