// A claim of another driver, as the operator has gathered it: 10 GiB of an expandable class, attached, opted in, adopted.
import { volumeHandleOf } from "../../src/contracts/identity.ts";
import type { Filesystem, SizeTarget } from "../../src/contracts/kinds/filesystem.ts";
import type { FilesystemLayout } from "../../src/contracts/kinds/filesystem-layout.ts";
import type {
  PersistentVolume,
  PersistentVolumeClaim,
  StorageClass,
} from "../../src/contracts/kubernetes/resources.ts";
import { API_VERSION } from "../../src/contracts/names.ts";
import type { OrdinaryClaim } from "../../src/operator/claim/claim-facts.ts";
import { claimLayout } from "../../src/operator/claim/decide-claim.ts";
import { buildClaim } from "./claim.ts";
import { storedObject } from "./stored-object.ts";

const CLAIM_UID = "11111111-2222-4333-8444-555555555555";
export const FOREIGN_DRIVER = "block.example.com";

export interface OrdinaryShape {
  readonly request?: string;
  readonly capacity?: string;
  readonly annotations?: Record<string, string>;
  readonly claimStatus?: PersistentVolumeClaim["status"];
  readonly claimSpec?: Partial<PersistentVolumeClaim["spec"]>;
  readonly volume?: Partial<PersistentVolume["spec"]>;
  readonly storageClass?: Partial<StorageClass>;
  readonly facts?: Partial<OrdinaryClaim>;
  /** The last one that was carried out. */
  readonly carried?: SizeTarget;
  /** Why that did not become the request. */
  readonly refusal?: string;
  /** What the policy-engine wants. */
  readonly target?: SizeTarget;
}

export function aTarget(size: string, from = "10Gi", decidedAt = "2026-11-20T12:00:00.000Z"): SizeTarget {
  return { size, from, epoch: 3, decidedAt };
}

/** Whole: with the layout and the Filesystem that adoption makes of it. */
export function anOrdinaryClaim(shape: OrdinaryShape = {}): OrdinaryClaim & {
  readonly layout: FilesystemLayout;
  readonly filesystem: Filesystem;
  readonly volume: PersistentVolume;
} {
  const volume = volumeOf(shape);
  const bare: OrdinaryClaim = {
    handle: volumeHandleOf(CLAIM_UID),
    claim: claimOf(shape),
    volume,
    storageClass: {
      apiVersion: "storage.k8s.io/v1",
      kind: "StorageClass",
      metadata: { name: "fast" },
      provisioner: FOREIGN_DRIVER,
      allowVolumeExpansion: true,
      ...shape.storageClass,
    },
    optedInBy: "shop/default",
    nodeName: "node-a",
    layout: undefined,
    filesystem: undefined,
    ...shape.facts,
  };
  const filesystem: Filesystem = {
    apiVersion: API_VERSION,
    kind: "Filesystem",
    metadata: { namespace: "shop", name: "data", generation: 1 },
    spec: {
      claimRef: { name: "data", uid: CLAIM_UID },
      ...(shape.target === undefined ? {} : { target: shape.target }),
    },
  };
  const carried = shape.carried && { target: shape.carried, refusal: shape.refusal };
  const layout = storedObject<FilesystemLayout>(claimLayout({ ...bare, filesystem }, volume, carried));
  return { ...bare, volume, filesystem, layout };
}

function claimOf({ request = "10Gi", capacity = "10Gi", ...shape }: OrdinaryShape): PersistentVolumeClaim {
  const claim = buildClaim({
    name: "data",
    namespace: "shop",
    request,
    storageClassName: "fast",
    ...(shape.annotations === undefined ? {} : { annotations: shape.annotations }),
    spec: { volumeName: "pv-data", ...shape.claimSpec },
  });
  return {
    ...claim,
    metadata: { ...claim.metadata, uid: CLAIM_UID, resourceVersion: "7" },
    status: { phase: "Bound", capacity: { storage: capacity }, ...shape.claimStatus },
  };
}

function volumeOf({ volume, capacity = "10Gi" }: OrdinaryShape): PersistentVolume {
  return {
    apiVersion: "v1",
    kind: "PersistentVolume",
    metadata: { name: "pv-data" },
    spec: {
      capacity: { storage: capacity },
      claimRef: { namespace: "shop", name: "data", uid: CLAIM_UID },
      csi: { driver: FOREIGN_DRIVER, volumeHandle: "vol-1", fsType: "ext4" },
      ...volume,
    },
  };
}
