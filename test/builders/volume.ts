// One volume's objects for tests: a loop volume of 10Gi that began with 1Gi, all of them telling the same.

import { fsidOf } from "../../src/contracts/identity.ts";
import type { Filesystem } from "../../src/contracts/kinds/filesystem.ts";
import type { FilesystemLayout } from "../../src/contracts/kinds/filesystem-layout.ts";
import type { PersistentVolume, PersistentVolumeClaim } from "../../src/contracts/kubernetes/resources.ts";
import { API_VERSION, LOCAL_DRIVER, RECORDS, TOPOLOGY_NODE } from "../../src/contracts/names.ts";
import { buildClaim } from "./claim.ts";

export const VOLUME_UID = "11111111-2222-4333-8444-555555555555";
export const HANDLE = `fs-${VOLUME_UID}`;
export const NODE = "node-1";
export const CLAIM_REF = { namespace: "shop", name: "data", uid: VOLUME_UID };

export interface LayoutFields {
  readonly spec?: Partial<FilesystemLayout["spec"]>;
  readonly status?: FilesystemLayout["status"];
  readonly annotations?: Record<string, string>;
}

export function buildLayout({ spec, status, annotations }: LayoutFields = {}): FilesystemLayout {
  return {
    apiVersion: API_VERSION,
    kind: "FilesystemLayout",
    metadata: {
      name: HANDLE,
      uid: "layout-uid",
      resourceVersion: "5",
      annotations: annotations ?? { [RECORDS.requestedSize]: "10Gi", [RECORDS.initialSize]: "1Gi" },
    },
    spec: {
      claimRef: CLAIM_REF,
      volumeUID: VOLUME_UID,
      backend: "loop",
      fsType: "btrfs",
      nodeName: NODE,
      members: [{ name: "m0", size: "1Gi", state: "Present", source: { loop: { file: `${HANDLE}-0.img` } } }],
      ...spec,
    },
    ...(status === undefined ? {} : { status }),
  };
}

/** The status of a layout whose only member has this size on its node. */
export function reported(size: string, more: FilesystemLayout["status"] = {}): FilesystemLayout["status"] {
  return { nodeName: NODE, members: [{ name: "m0", size, state: "Present" }], ...more };
}

export function buildFilesystem(
  fields: Pick<Partial<Filesystem>, "status"> & Partial<Filesystem["spec"]> = {},
): Filesystem {
  const { status, ...spec } = fields;
  return {
    apiVersion: API_VERSION,
    kind: "Filesystem",
    metadata: { namespace: CLAIM_REF.namespace, name: CLAIM_REF.name, uid: "filesystem-uid", generation: 3 },
    spec: { claimRef: { name: CLAIM_REF.name, uid: CLAIM_REF.uid }, ...spec },
    ...(status === undefined ? {} : { status }),
  };
}

export function buildPersistentVolume(attributes: Record<string, string> = {}): PersistentVolume {
  return {
    apiVersion: "v1",
    kind: "PersistentVolume",
    metadata: { name: `pvc-${VOLUME_UID}` },
    spec: {
      capacity: { storage: "10Gi" },
      accessModes: ["ReadWriteOnce"],
      claimRef: { kind: "PersistentVolumeClaim", ...CLAIM_REF },
      csi: {
        driver: LOCAL_DRIVER,
        volumeHandle: HANDLE,
        volumeAttributes: {
          [RECORDS.volumeUID]: VOLUME_UID,
          [RECORDS.fsid]: fsidOf(VOLUME_UID),
          [RECORDS.fsType]: "btrfs",
          [RECORDS.backend]: "loop",
          [RECORDS.requestedSize]: "10Gi",
          [RECORDS.initialSize]: "1Gi",
          ...attributes,
        },
      },
      nodeAffinity: {
        required: {
          nodeSelectorTerms: [{ matchExpressions: [{ key: TOPOLOGY_NODE, operator: "In", values: [NODE] }] }],
        },
      },
      persistentVolumeReclaimPolicy: "Delete",
    },
    status: { phase: "Bound" },
  };
}

/** The claim that buildPersistentVolume() is bound to. */
export function buildBoundClaim(): PersistentVolumeClaim {
  const { name, namespace, uid } = CLAIM_REF;
  const claim = buildClaim({ name, namespace, spec: { volumeName: `pvc-${VOLUME_UID}` } });
  return { ...claim, metadata: { ...claim.metadata, uid }, status: { phase: "Bound", capacity: { storage: "10Gi" } } };
}
