// Stands in for csi-resizer: a raised request becomes ControllerExpandVolume, and the claim's capacity what that answers.
// A lowered one is refused; shrinking is a policy's, and never shows in the claim.

import {
  PERSISTENT_VOLUME_CLAIMS,
  PERSISTENT_VOLUMES,
  type PersistentVolume,
  type PersistentVolumeClaim,
  type StorageClass,
} from "../../src/contracts/kubernetes/resources.ts";
import { formatBytes, formatQuantity, parseQuantity } from "../../src/contracts/quantities/quantity.ts";
import type { KubeClient } from "../../src/platform/kube/client/client.ts";
import type { EventRecorder } from "../../src/platform/kube/events/events.ts";
import type { Outcome } from "../../src/platform/kube/queue/work-queue.ts";
import { boundVolume, type ClaimCaches } from "./claim-caches.ts";
import { type ControllerPort, describeCallError, type NodePort } from "./csi-client.ts";
import { stagingPathOf, targetPathOf } from "./kubelet-paths.ts";
import { capabilitiesOf } from "./volume-request.ts";

export interface Resizing {
  readonly client: KubeClient;
  readonly caches: ClaimCaches;
  readonly controller: ControllerPort;
  readonly node: NodePort;
  readonly events: EventRecorder;
  readonly kubeletDirectory: string;
}

export type ResizePlan =
  | { readonly do: "nothing" }
  | { readonly do: "expand"; readonly requestBytes: number }
  | { readonly do: "refuse"; readonly message: string };

/** Pure. Nothing is compared before the claim is bound and has a capacity. */
export function decideResize(claim: PersistentVolumeClaim, storageClass: StorageClass | undefined): ResizePlan {
  const request = claim.spec.resources?.requests?.storage;
  const capacity = claim.status?.capacity?.storage;
  if (request === undefined || capacity === undefined || claim.metadata.deletionTimestamp) return { do: "nothing" };
  const [requestBytes, capacityBytes] = [parseQuantity(request), parseQuantity(capacity)];
  if (requestBytes === capacityBytes) return { do: "nothing" };
  if (requestBytes < capacityBytes)
    return {
      do: "refuse",
      message: `the request was lowered to ${formatBytes(requestBytes)}, under the claim's capacity of ${formatBytes(capacityBytes)}; a claim cannot shrink: set it back, and let a VolumePolicy shrink the filesystem`,
    };
  if (storageClass?.allowVolumeExpansion !== true)
    return { do: "refuse", message: `StorageClass "${claim.spec.storageClassName}" does not allow volume expansion` };
  return { do: "expand", requestBytes };
}

export async function resizeClaim(resizing: Resizing, key: string): Promise<Outcome> {
  const { caches, events } = resizing;
  const claim = caches.claims.store.get(key);
  const volume = claim && boundVolume(caches, claim);
  if (claim === undefined || volume === undefined) return "done";
  const plan = decideResize(claim, caches.classes.store.get(claim.spec.storageClassName ?? ""));
  switch (plan.do) {
    case "nothing":
      return "done";
    case "refuse":
      events.record(claim, "Warning", "VolumeResizeFailed", plan.message);
      return "done";
    case "expand":
      await expand(resizing, claim, volume, plan.requestBytes);
      return "done";
  }
}

async function expand(
  resizing: Resizing,
  claim: PersistentVolumeClaim,
  volume: PersistentVolume,
  requestBytes: number,
): Promise<void> {
  const { client, events } = resizing;
  const capacityBytes = await callServices(resizing, claim, volume, requestBytes).catch((error: unknown) => {
    events.record(claim, "Warning", "VolumeResizeFailed", describeCallError(error));
    throw new Error(`${volume.metadata.name}: ${describeCallError(error)}`, { cause: error });
  });
  const capacity = { storage: formatQuantity(capacityBytes) };
  const name = { namespace: claim.metadata.namespace, name: claim.metadata.name };
  const ofVolume = { spec: { capacity } };
  await client.mergePatch("resizer/volume-capacity", PERSISTENT_VOLUMES, { name: volume.metadata.name }, ofVolume);
  await client.mergePatch("resizer/claim-capacity", PERSISTENT_VOLUME_CLAIMS, name, { status: { capacity } }, "status");
  events.record(claim, "Normal", "VolumeResizeSuccessful", `Resize volume succeeded: ${formatBytes(capacityBytes)}`);
}

async function callServices(
  { controller, node, kubeletDirectory }: Resizing,
  claim: PersistentVolumeClaim,
  volume: PersistentVolume,
  requestBytes: number,
): Promise<number> {
  const volumeId = volume.spec.csi?.volumeHandle ?? "";
  const capacityRange = { requiredBytes: requestBytes, limitBytes: 0 };
  const [volumeCapability] = capabilitiesOf(claim, volume.spec.csi?.fsType ?? "", volume.spec.mountOptions ?? []);
  const expanded = await controller.expandVolume({ volumeId, capacityRange, volumeCapability, secrets: {} });
  if (expanded.nodeExpansionRequired)
    await node.expand({
      volumeId,
      volumePath: targetPathOf(kubeletDirectory, claim, volume),
      stagingTargetPath: stagingPathOf(kubeletDirectory, volumeId),
      capacityRange,
      volumeCapability,
      secrets: {},
    });
  return expanded.capacityBytes;
}
