// What the operator watches for ordinary claims: claims, whether they are opted in and can be expanded, and where they
// are attached. Each change is reported under the handle that the claim has, or would have, as a volume of ours.
import { isDeepStrictEqual } from "node:util";
import { volumeHandleOf } from "../../contracts/identity.ts";
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
  type PersistentVolume,
  type PersistentVolumeClaim,
  STORAGE_CLASSES,
  type StorageClass,
  VOLUME_ATTACHMENTS,
} from "../../contracts/kubernetes/resources.ts";
import { MEMBER_NAMESPACE } from "../../contracts/names.ts";
import { createReflector, type Reflector, reflectorSet } from "../../platform/kube/cache/reflector.ts";
import type { KubeClient } from "../../platform/kube/client/client.ts";
import type { Logger } from "../../platform/process/log.ts";
import type { VolumeCaches } from "../gather/volume-caches.ts";

export type ClaimCaches = ReturnType<typeof createClaimCaches>;

export function createClaimCaches(client: KubeClient, volumes: VolumeCaches, log: Logger) {
  const of = <T extends KubeObject>(resource: Resource<T>): Reflector<T> => createReflector({ client, resource, log });
  const ofPolicies = <T extends KubeObject>(resource: Resource<T>): Reflector<T> =>
    createReflector({ client, resource, log, select: POLICY_PAGES, keep: policyInBrief });
  const reflectors = {
    claims: createReflector({
      client,
      resource: PERSISTENT_VOLUME_CLAIMS,
      log,
      indexes: { handle: (claim) => handlesOf(claim) },
    }),
    attachments: createReflector({
      client,
      resource: VOLUME_ATTACHMENTS,
      log,
      indexes: {
        volume: ({ spec }) => [spec.source.persistentVolumeName ?? ""],
        node: ({ spec }) => [spec.nodeName],
      },
    }),
    storageClasses: of(STORAGE_CLASSES),
    namespaces: of(NAMESPACES),
    policies: ofPolicies(VOLUME_POLICIES),
    clusterPolicies: ofPolicies(CLUSTER_VOLUME_POLICIES),
  };
  const { claims, attachments, storageClasses, namespaces, policies, clusterPolicies } = reflectors;
  const { layouts, filesystems, persistentVolumes } = volumes;
  const all = reflectorSet(Object.values(reflectors));
  const handles = (): string[] => [
    ...claims.store.list().flatMap(handlesOf),
    ...layouts.store.list().flatMap(({ metadata, spec }) => (spec.backend === "claim" ? [metadata.name] : [])),
  ];
  return {
    ...reflectors,
    ...all,
    layouts,
    filesystems,
    persistentVolumes,
    /** Of all existing claims, and of those that a layout names. */
    handles: () => new Set(handles()),
    synced: Promise.all([all.synced, volumes.synced]).then(() => undefined),
    /** `changed` hears of one claim; `allChanged` of what may be about any. */
    onChange: (changed: (handle: string) => void, allChanged: () => void): void => {
      const ofVolume = (volume: PersistentVolume | undefined): void => {
        if (volume?.spec.claimRef?.uid !== undefined) changed(volumeHandleOf(volume.spec.claimRef.uid));
      };
      follow(claims, (claim) => handlesOf(claim).forEach(changed));
      follow(attachments, ({ spec }) => ofVolume(persistentVolumes.store.get(spec.source.persistentVolumeName ?? "")));
      follow(persistentVolumes, ofVolume);
      follow(layouts, ({ metadata }) => changed(metadata.name));
      follow(filesystems, ({ spec }) => changed(volumeHandleOf(spec.claimRef?.uid ?? "")));
      for (const each of [storageClasses, namespaces, policies, clusterPolicies] as Reflector<KubeObject>[])
        each.subscribe({
          added: allChanged,
          updated: (now, before) => {
            if (isNews(now, before)) allChanged();
          },
          deleted: allChanged,
        });
    },
  };
}

/** Members of spans do not count as ordinary claims. */
function handlesOf({ metadata }: PersistentVolumeClaim): string[] {
  return metadata.namespace === MEMBER_NAMESPACE || metadata.uid === undefined ? [] : [volumeHandleOf(metadata.uid)];
}

/** A status, such as the policy-engine writes into each policy, says nothing here. */
function isNews(now: KubeObject & Partial<StorageClass>, before: KubeObject & Partial<StorageClass>): boolean {
  const essence = ({ metadata, allowVolumeExpansion }: typeof now): unknown[] => [
    metadata.generation,
    metadata.labels,
    metadata.annotations,
    allowVolumeExpansion,
  ];
  return !isDeepStrictEqual(essence(now), essence(before));
}

function follow<T extends KubeObject>(reflector: Reflector<T>, tell: (object: T) => void): void {
  reflector.subscribe({ added: tell, updated: tell, deleted: tell });
}
