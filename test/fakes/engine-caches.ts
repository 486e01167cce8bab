// What the engine has heard of the API server, as a case puts it there; with the indexes of src/policy-engine/gather/caches.ts.

import type { Filesystem } from "../../src/contracts/kinds/filesystem.ts";
import type { FilesystemLayout } from "../../src/contracts/kinds/filesystem-layout.ts";
import type { ScalingApproval } from "../../src/contracts/kinds/scaling-approval.ts";
import type { ClusterVolumePolicy, VolumePolicy } from "../../src/contracts/kinds/volume-policy.ts";
import type {
  Namespace,
  PersistentVolumeClaim,
  ResourceQuota,
  StorageClass,
} from "../../src/contracts/kubernetes/resources.ts";
import { reflectorSet } from "../../src/platform/kube/cache/reflector.ts";
import type { Caches } from "../../src/policy-engine/gather/caches.ts";
import { type FilledCache, filledCache } from "./filled-cache.ts";

export type EngineCaches = Caches & Kinds;

interface Kinds {
  readonly layouts: FilledCache<FilesystemLayout>;
  readonly filesystems: FilledCache<Filesystem>;
  readonly claims: FilledCache<PersistentVolumeClaim>;
  readonly storageClasses: FilledCache<StorageClass>;
  readonly namespaces: FilledCache<Namespace>;
  readonly quotas: FilledCache<ResourceQuota>;
  readonly policies: FilledCache<VolumePolicy>;
  readonly clusterPolicies: FilledCache<ClusterVolumePolicy>;
  readonly approvals: FilledCache<ScalingApproval>;
}

export function engineCaches(): EngineCaches {
  const kinds: Kinds = {
    layouts: filledCache({
      claim: ({ spec: { claimRef } }) =>
        claimRef?.namespace === undefined ? [] : [`${claimRef.namespace}/${claimRef.name}`],
    }),
    filesystems: filledCache(),
    claims: filledCache({ namespace: ({ metadata: { namespace = "" } }) => [namespace] }),
    storageClasses: filledCache(),
    namespaces: filledCache(),
    quotas: filledCache({ namespace: ({ metadata: { namespace = "" } }) => [namespace] }),
    policies: filledCache(),
    clusterPolicies: filledCache(),
    approvals: filledCache(),
  };
  return { ...kinds, ...reflectorSet(Object.values(kinds)) };
}
