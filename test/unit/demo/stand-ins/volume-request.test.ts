import { describe, expect, it } from "@jest/globals";
import { createVolumeRequest, persistentVolumeOf } from "../../../../demo/stand-ins/volume-request.ts";
import { VolumeCapability_AccessMode_Mode as Mode } from "../../../../src/contracts/gen/csi/v1/csi.ts";
import type { StorageClass } from "../../../../src/contracts/kubernetes/resources.ts";
import { GIB } from "../../../../src/contracts/quantities/quantity.ts";
import { buildBoundClaim, CLAIM_REF, HANDLE, VOLUME_UID } from "../../../builders/volume.ts";

const storageClass: StorageClass = {
  apiVersion: "storage.k8s.io/v1",
  kind: "StorageClass",
  metadata: { name: "tidemark-loop" },
  provisioner: "local.tidemark.dev",
  parameters: { backend: "loop", initialSize: "1Gi", "csi.storage.k8s.io/fstype": "xfs" },
  mountOptions: ["noatime"],
};
const claim = buildBoundClaim();

describe("a CreateVolumeRequest", () => {
  const request = createVolumeRequest(claim, storageClass, "node-1");

  it("is named by the claim's UID and asks for exactly the claim's request", () => {
    expect(request).toMatchObject({
      name: `pvc-${VOLUME_UID}`,
      capacityRange: { requiredBytes: 10 * GIB, limitBytes: 0 },
    });
  });

  it("carries the class' own parameters and the claim's name; the filesystem type goes into the capability", () => {
    expect(request.parameters).toEqual({
      backend: "loop",
      initialSize: "1Gi",
      "csi.storage.k8s.io/pvc/name": "data",
      "csi.storage.k8s.io/pvc/namespace": "shop",
      "csi.storage.k8s.io/pv/name": `pvc-${VOLUME_UID}`,
    });
    expect(request.volumeCapabilities).toEqual([
      {
        accessType: { $case: "mount", value: { fsType: "xfs", mountFlags: ["noatime"], volumeMountGroup: "" } },
        accessMode: { mode: Mode.SINGLE_NODE_MULTI_WRITER },
      },
    ]);
  });

  it("asks for one writer where the claim is ReadWriteOncePod", () => {
    const single = { ...claim, spec: { ...claim.spec, accessModes: ["ReadWriteOncePod" as const] } };
    const [capability] = createVolumeRequest(single, storageClass, "node-1").volumeCapabilities;
    expect(capability?.accessMode?.mode).toBe(Mode.SINGLE_NODE_SINGLE_WRITER);
  });

  it("asks for the node", () => {
    expect(request.accessibilityRequirements?.preferred).toEqual([
      { segments: { "topology.tidemark.dev/node": "node-1" } },
    ]);
  });
});

describe("the PersistentVolume of an answer", () => {
  it("records everything that the volume can be found by", () => {
    const volume = persistentVolumeOf(claim, storageClass, {
      volume: {
        capacityBytes: 10 * GIB,
        volumeId: HANDLE,
        volumeContext: { "tidemark.dev/volume-uid": VOLUME_UID },
        contentSource: undefined,
        accessibleTopology: [{ segments: { "topology.tidemark.dev/node": "node-1" } }],
      },
    });
    expect(volume.metadata).toMatchObject({ name: `pvc-${VOLUME_UID}`, finalizers: ["kubernetes.io/pv-protection"] });
    expect(volume.spec).toMatchObject({
      capacity: { storage: "10Gi" },
      claimRef: CLAIM_REF,
      csi: { volumeHandle: HANDLE, fsType: "xfs", volumeAttributes: { "tidemark.dev/volume-uid": VOLUME_UID } },
      mountOptions: ["noatime"],
      persistentVolumeReclaimPolicy: "Delete",
      volumeMode: "Filesystem",
    });
    expect(volume.spec.nodeAffinity?.required?.nodeSelectorTerms).toEqual([
      { matchExpressions: [{ key: "topology.tidemark.dev/node", operator: "In", values: ["node-1"] }] },
    ]);
  });
});
