// A claim and its PersistentVolume as csi-provisioner and the PersistentVolume controller leave them, but for what they say in the status.

import { volumeNameOf } from "../../demo/stand-ins/volume-request.ts";
import type { Volume } from "../../src/contracts/gen/csi/v1/csi.ts";
import {
  PERSISTENT_VOLUME_CLAIMS,
  PERSISTENT_VOLUMES,
  type PersistentVolumeClaim,
} from "../../src/contracts/kubernetes/resources.ts";
import { SPAN_DRIVER } from "../../src/contracts/names.ts";
import type { KubeClient } from "../../src/platform/kube/client/client.ts";

/** To the span that was created for it. */
export async function bindToSpan(
  client: KubeClient,
  claim: PersistentVolumeClaim,
  volume: Volume | undefined,
  storage: string,
): Promise<void> {
  const { namespace, name, uid } = claim.metadata;
  const volumeName = volumeNameOf(claim);
  await client.create("test/volume", PERSISTENT_VOLUMES, {
    apiVersion: "v1",
    kind: "PersistentVolume",
    metadata: { name: volumeName },
    spec: {
      capacity: { storage },
      persistentVolumeReclaimPolicy: "Delete",
      accessModes: ["ReadWriteOnce"],
      claimRef: { kind: "PersistentVolumeClaim", namespace, name, uid },
      csi: {
        driver: SPAN_DRIVER,
        volumeHandle: volume?.volumeId ?? "",
        volumeAttributes: volume?.volumeContext,
      },
    },
  });
  await client.mergePatch("test/bind", PERSISTENT_VOLUME_CLAIMS, { namespace, name }, { spec: { volumeName } });
}
