// The engine's view of the API server: one reflector per kind it reads.
import { FILESYSTEMS } from "../../api/filesystem.ts";
import { FILESYSTEM_LAYOUTS } from "../../api/filesystem-layout.ts";
import { POLICY_PAGES, policyInBrief } from "../../api/policy-in-brief.ts";
import { CLUSTER_VOLUME_POLICIES, VOLUME_POLICIES } from "../../api/volume-policy.ts";
import { createReflector, type Reflector } from "../../kube/cache/reflector.ts";
import { reflectorSet } from "../../kube/cache/reflector-set.ts";
import type { KubeClient } from "../../kube/client/client.ts";
import type { KubeObject, Resource } from "../../kube/object.ts";
import { NAMESPACES, PERSISTENT_VOLUME_CLAIMS, RESOURCE_QUOTAS, STORAGE_CLASSES } from "../../kube/resources.ts";
import type { Logger } from "../../process/log.ts";

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
    claims: of(PERSISTENT_VOLUME_CLAIMS),
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
  };
  return { ...reflectors, ...reflectorSet(Object.values(reflectors)) };
}
