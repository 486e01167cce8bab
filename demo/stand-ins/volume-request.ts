// A claim and its class as csi-provisioner puts them into a CreateVolumeRequest, and the PersistentVolume that it makes of
// the answer. Pure.

import {
  type CreateVolumeRequest,
  type CreateVolumeResponse,
  VolumeCapability_AccessMode_Mode as Mode,
  type VolumeCapability,
} from "../../src/contracts/gen/csi/v1/csi.ts";
import type {
  AccessMode,
  PersistentVolume,
  PersistentVolumeClaim,
  StorageClass,
} from "../../src/contracts/kubernetes/resources.ts";
import { LOCAL_DRIVER, TOPOLOGY_NODE } from "../../src/contracts/names.ts";
import { formatQuantity, parseQuantity } from "../../src/contracts/quantities/quantity.ts";

const SIDECAR_PREFIX = "csi.storage.k8s.io/";
const FS_TYPE = `${SIDECAR_PREFIX}fstype`;
export const PV_PROTECTION = "kubernetes.io/pv-protection";

/** For a driver with SINGLE_NODE_MULTI_WRITER, which ours is: the sidecars and kubelet pass ReadWriteOncePod on. */
const MODE_OF: Readonly<Record<AccessMode, Mode>> = {
  ReadWriteOnce: Mode.SINGLE_NODE_MULTI_WRITER,
  ReadWriteOncePod: Mode.SINGLE_NODE_SINGLE_WRITER,
  ReadOnlyMany: Mode.MULTI_NODE_READER_ONLY,
  ReadWriteMany: Mode.MULTI_NODE_MULTI_WRITER,
};

/** The name that csi-provisioner gives the claim's PersistentVolume. */
export function volumeNameOf(claim: PersistentVolumeClaim): string {
  return `pvc-${claim.metadata.uid}`;
}

/** The capabilities of a claim: fsType and mountFlags are the class', the modes the claim's. */
export function capabilitiesOf(
  { spec }: PersistentVolumeClaim,
  fsType: string,
  mountFlags: readonly string[],
): VolumeCapability[] {
  const accessType: VolumeCapability["accessType"] =
    spec.volumeMode === "Block"
      ? { $case: "block", value: {} }
      : { $case: "mount", value: { fsType, mountFlags: [...mountFlags], volumeMountGroup: "" } };
  return (spec.accessModes ?? []).map((mode) => ({ accessType, accessMode: { mode: MODE_OF[mode] } }));
}

/** With --extra-create-metadata, and the one node there is as the selected one. */
export function createVolumeRequest(
  claim: PersistentVolumeClaim,
  storageClass: StorageClass,
  nodeName: string,
): CreateVolumeRequest {
  const { namespace, name } = claim.metadata;
  const parameters = Object.entries(storageClass.parameters ?? {}).filter(([key]) => !key.startsWith(SIDECAR_PREFIX));
  const topology = { segments: { [TOPOLOGY_NODE]: nodeName } };
  return {
    name: volumeNameOf(claim),
    capacityRange: { requiredBytes: parseQuantity(claim.spec.resources?.requests?.storage ?? "0"), limitBytes: 0 },
    volumeCapabilities: capabilitiesOf(
      claim,
      storageClass.parameters?.[FS_TYPE] ?? "",
      storageClass.mountOptions ?? [],
    ),
    parameters: {
      ...Object.fromEntries(parameters),
      [`${SIDECAR_PREFIX}pvc/name`]: name,
      [`${SIDECAR_PREFIX}pvc/namespace`]: namespace ?? "",
      [`${SIDECAR_PREFIX}pv/name`]: volumeNameOf(claim),
    },
    secrets: {},
    volumeContentSource: contentSource(claim),
    accessibilityRequirements: { requisite: [topology], preferred: [topology] },
    mutableParameters: {},
  };
}

function contentSource({ spec }: PersistentVolumeClaim): CreateVolumeRequest["volumeContentSource"] {
  if (spec.dataSource === undefined) return undefined;
  const { kind, name } = spec.dataSource;
  return kind === "PersistentVolumeClaim"
    ? { type: { $case: "volume", value: { volumeId: name } } }
    : { type: { $case: "snapshot", value: { snapshotId: name } } };
}

export function persistentVolumeOf(
  claim: PersistentVolumeClaim,
  storageClass: StorageClass,
  { volume }: CreateVolumeResponse,
): PersistentVolume {
  const { namespace, name, uid } = claim.metadata;
  const segments = Object.entries(volume?.accessibleTopology[0]?.segments ?? {});
  const terms = [{ matchExpressions: segments.map(([key, value]) => ({ key, operator: "In", values: [value] })) }];
  return {
    apiVersion: "v1",
    kind: "PersistentVolume",
    metadata: {
      name: volumeNameOf(claim),
      annotations: { "pv.kubernetes.io/provisioned-by": LOCAL_DRIVER },
      finalizers: [PV_PROTECTION],
    },
    spec: {
      capacity: { storage: formatQuantity(volume?.capacityBytes ?? 0) },
      accessModes: claim.spec.accessModes,
      claimRef: { apiVersion: "v1", kind: "PersistentVolumeClaim", namespace, name, uid },
      csi: {
        driver: LOCAL_DRIVER,
        volumeHandle: volume?.volumeId ?? "",
        fsType: storageClass.parameters?.[FS_TYPE],
        volumeAttributes: volume?.volumeContext,
      },
      nodeAffinity: { required: { nodeSelectorTerms: terms } },
      mountOptions: storageClass.mountOptions,
      persistentVolumeReclaimPolicy: storageClass.reclaimPolicy ?? "Delete",
      storageClassName: storageClass.metadata.name,
      volumeMode: claim.spec.volumeMode ?? "Filesystem",
    },
  };
}
