// The engine's view of the API server: one reflector per kind it reads.
import { FILESYSTEMS } from "../../contracts/kinds/filesystem.ts";
import { FILESYSTEM_LAYOUTS } from "../../contracts/kinds/filesystem-layout.ts";
import { SCALING_APPROVALS } from "../../contracts/kinds/scaling-approval.ts";
import {
  CLUSTER_VOLUME_POLICIES,
  POLICY_PAGES,
  policyInBrief,
  VOLUME_POLICIES,
} from "../../contracts/kinds/volume-policy.ts";
import type { KubeObject, Resource } from "../../contracts/kubernetes/object.ts";
import {
  NAMESPACES,
  PERSISTENT_VOLUME_CLAIMS,
  RESOURCE_QUOTAS,
  STORAGE_CLASSES,
} from "../../contracts/kubernetes/resources.ts";
import { createReflector, type Reflector, reflectorSet } from "../../platform/kube/cache/reflector.ts";
import type { KubeClient } from "../../platform/kube/client/client.ts";
import type { Logger } from "../../platform/process/log.ts";

export type Caches = ReturnType<typeof createCaches>;

export function createCaches(client: KubeClient, log: Logger) {
  const of = <T extends KubeObject>(resource: Resource<T>): Reflector<T> => createReflector({ client, resource, log });
  const ofPolicies = <T extends KubeObject>(resource: Resource<T>): Reflector<T> =>
    createReflector({ client, resource, log, select: POLICY_PAGES, keep: policyInBrief });
  const reflectors = {
    layouts: createReflector({
      client,
      resource: FILESYSTEM_LAYOUTS,
      log,
      indexes: {
        claim: ({ spec: { claimRef } }) =>
          claimRef?.namespace === undefined ? [] : [`${claimRef.namespace}/${claimRef.name}`],
      },
    }),
    filesystems: of(FILESYSTEMS),
    claims: createReflector({
      client,
      resource: PERSISTENT_VOLUME_CLAIMS,
      log,
      indexes: { namespace: ({ metadata: { namespace = "" } }) => [namespace] },
    }),
    storageClasses: of(STORAGE_CLASSES),
    namespaces: of(NAMESPACES),
    quotas: createReflector({
      client,
      resource: RESOURCE_QUOTAS,
      log,
      indexes: { namespace: ({ metadata: { namespace = "" } }) => [namespace] },
    }),
    policies: ofPolicies(VOLUME_POLICIES),
    clusterPolicies: ofPolicies(CLUSTER_VOLUME_POLICIES),
    approvals: ofPolicies(SCALING_APPROVALS),
  };
  return { ...reflectors, ...reflectorSet(Object.values(reflectors)) };
}
