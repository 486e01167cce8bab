// CreateVolumeRequests for tests, as csi-provisioner sends them.
import {
  type CreateVolumeRequest,
  VolumeCapability_AccessMode_Mode as Mode,
} from "../../src/contracts/gen/csi/v1/csi.ts";
import { GIB } from "../../src/contracts/quantities/quantity.ts";
import { NODE, VOLUME_UID } from "./volume.ts";

export const PARAMETERS = {
  backend: "loop",
  "csi.storage.k8s.io/pvc/name": "data",
  "csi.storage.k8s.io/pvc/namespace": "shop",
  "csi.storage.k8s.io/pv/name": `pvc-${VOLUME_UID}`,
};

export function blockCapability(mode: Mode = Mode.SINGLE_NODE_WRITER) {
  return { accessType: { $case: "block" as const, value: {} }, accessMode: { mode } };
}

export function mountCapability(fsType = "", mode: Mode = Mode.SINGLE_NODE_WRITER) {
  return {
    accessType: { $case: "mount" as const, value: { fsType, mountFlags: [], volumeMountGroup: "" } },
    accessMode: { mode },
  };
}

/** 10 GiB of backend loop on node-1. */
export function buildCreateVolumeRequest(fields: Partial<CreateVolumeRequest> = {}): CreateVolumeRequest {
  const topology = { segments: { "topology.tidemark.dev/node": NODE } };
  return {
    name: `pvc-${VOLUME_UID}`,
    capacityRange: { requiredBytes: 10 * GIB, limitBytes: 0 },
    volumeCapabilities: [mountCapability()],
    parameters: PARAMETERS,
    secrets: {},
    volumeContentSource: undefined,
    accessibilityRequirements: { requisite: [topology], preferred: [topology] },
    mutableParameters: {},
    ...fields,
  };
}
