// Which claims of a pod are of Tidemark's drivers: from the caches, and from the API server where these do not have one (yet).
import { driverNamed } from "../../csi/driver.ts";
import type { Reflector } from "../../kube/cache/reflector.ts";
import type { KubeClient } from "../../kube/client/client.ts";
import { objectKey } from "../../kube/object.ts";
import {
  PERSISTENT_VOLUME_CLAIMS,
  type PersistentVolume,
  type PersistentVolumeClaim,
  type PodVolume,
  STORAGE_CLASSES,
  type StorageClass,
} from "../../kube/resources.ts";
import { readQuantity } from "../../units/quantity.ts";
import type { PlacedClaim, PodClaims } from "./decide-placement.ts";

export interface ClaimSources {
  /** With a limit over all pods that are looked at: limited-reads.ts. */
  readonly client: Pick<KubeClient, "get">;
  readonly claims: Pick<Reflector<PersistentVolumeClaim>, "store">;
  readonly storageClasses: Pick<Reflector<StorageClass>, "store">;
  readonly persistentVolumes: Pick<Reflector<PersistentVolume>, "store">;
}

/** Of one pod: what the caches do not have costs a request each, and a pod may name what it likes. */
const VOLUMES_LIMIT = 256;
const IS_DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class";

/** Throws KubeError. Volumes of a pod that has too many of them are left out. */
export async function claimsOfPod(
  sources: ClaimSources,
  namespace: string,
  volumes: readonly PodVolume[],
): Promise<PodClaims> {
  const looked = volumes.filter(isClaiming).slice(0, VOLUMES_LIMIT);
  const names = new Set(looked.flatMap(({ persistentVolumeClaim }) => persistentVolumeClaim?.claimName ?? []));
  const named = await Promise.all(
    [...names].map(async (name) => ({ name, claim: await findClaim(sources, namespace, name) })),
  );
  const templates = looked.flatMap(({ ephemeral }) => ephemeral?.volumeClaimTemplate?.spec ?? []);
  const specs = [...named.flatMap(({ claim }) => claim?.spec ?? []), ...templates];
  const placed = await Promise.all(specs.map((spec) => placedClaim(sources, spec)));
  return {
    ours: placed.filter((claim) => claim !== undefined),
    missing: named.filter(({ claim }) => claim === undefined).map(({ name }) => name),
  };
}

export function isClaiming({ persistentVolumeClaim, ephemeral }: PodVolume): boolean {
  return persistentVolumeClaim !== undefined || ephemeral !== undefined;
}

async function findClaim({ client, claims }: ClaimSources, namespace: string, name: string) {
  // One of a moment ago is not in the cache yet.
  return claims.store.get(objectKey({ namespace, name })) ?? client.get(PERSISTENT_VOLUME_CLAIMS, { namespace, name });
}

/** Undefined: it is of another driver, or of none. */
async function placedClaim(
  sources: ClaimSources,
  { volumeName, storageClassName, resources }: PersistentVolumeClaim["spec"],
): Promise<PlacedClaim | undefined> {
  // What a volume is made of is the volume's word: its class may be another by now, or gone.
  const volume = sources.persistentVolumes.store.get(volumeName ?? "");
  if (volume !== undefined)
    return driverNamed(volume.spec.csi?.driver) && { className: volume.spec.storageClassName ?? "", bytes: 0 };
  const storageClass = await findClass(sources, storageClassName);
  if (storageClass === undefined || driverNamed(storageClass.provisioner) === undefined) return undefined;
  const bytes = volumeName === undefined ? (readQuantity(resources?.requests?.storage) ?? 0) : 0;
  return { className: storageClass.metadata.name, bytes };
}

async function findClass({ client, storageClasses }: ClaimSources, name: string | undefined) {
  if (name === undefined) return defaultClass(storageClasses.store.list());
  if (name === "") return undefined;
  return storageClasses.store.get(name) ?? client.get(STORAGE_CLASSES, { name });
}

/** As the API server chooses it for a claim that names none: the youngest, then by name. */
function defaultClass(classes: readonly StorageClass[]): StorageClass | undefined {
  const isDefault = ({ metadata }: StorageClass): boolean => metadata.annotations?.[IS_DEFAULT_CLASS] === "true";
  const age = ({ metadata }: StorageClass): string => metadata.creationTimestamp ?? "";
  const [youngest] = classes
    .filter(isDefault)
    .sort((a, b) => age(b).localeCompare(age(a)) || a.metadata.name.localeCompare(b.metadata.name));
  return youngest;
}
