// Which claims of a pod are of Tidemark's drivers: from the caches, and from the API server where these do not have one (yet). Those
// reads have a limit over all admissions: a pod may name hundreds of claims that no cache has, any client that reaches the port may send
// hundreds of pods at once, and the operator's other work has the same connections.
import { driverNamed } from "../../contracts/csi/driver.ts";
import { objectKey } from "../../contracts/kubernetes/object.ts";
import {
  PERSISTENT_VOLUME_CLAIMS,
  type PersistentVolume,
  type PersistentVolumeClaim,
  STORAGE_CLASSES,
  type StorageClass,
} from "../../contracts/kubernetes/resources.ts";
import { readQuantity } from "../../contracts/quantities/quantity.ts";
import type { Reflector } from "../../platform/kube/cache/reflector.ts";
import type { KubeClient } from "../../platform/kube/client/client.ts";
import { KubeError } from "../../platform/kube/kube-error.ts";
import type { Clock } from "../../platform/process/clock.ts";
import type { AdmittedVolume, ClaimDemand } from "./admission-review.ts";
import type { PlacedClaim, PodClaims } from "./decide-placement.ts";

export interface ClaimSources {
  /** With a limit over all pods that are checked (limitReads). */
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
  volumes: readonly AdmittedVolume[],
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

export function isClaiming({ persistentVolumeClaim, ephemeral }: AdmittedVolume): boolean {
  return persistentVolumeClaim !== undefined || ephemeral !== undefined;
}

async function findClaim({ client, claims }: ClaimSources, namespace: string, name: string) {
  // A claim that was only just made is not in the cache yet.
  return claims.store.get(objectKey({ namespace, name })) ?? client.get(PERSISTENT_VOLUME_CLAIMS, { namespace, name });
}

/** Undefined: it is of another driver, or of none. */
async function placedClaim(
  sources: ClaimSources,
  { volumeName, storageClassName, resources }: ClaimDemand,
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

interface ReadLimits {
  /** Reads that the API server is asked at a time. */
  readonly underWay: number;
  /** Reads that wait for their turn; what comes beyond is refused at once. */
  readonly waiting: number;
  /** After so many milliseconds no caller waits for the answer, and the API server is not asked. */
  readonly turnLimitMs: number;
}

type Reads = Pick<KubeClient, "get">;

/** In the order in which they came. Throws KubeError, "TooManyRequests" where there are too many or the turn came too late. */
export function limitReads(client: Reads, limits: ReadLimits, clock: Pick<Clock, "monotonicMs">): Reads {
  const waiting: (() => void)[] = [];
  let underWay = 0;
  const turn = async (): Promise<void> => {
    if (underWay < limits.underWay) {
      underWay += 1;
      return;
    }
    if (waiting.length >= limits.waiting) throw new KubeError("TooManyRequests", 0, TOO_MANY);
    const sinceMs = clock.monotonicMs();
    // A read that ends passes its place on.
    await new Promise<void>((resolve) => waiting.push(resolve));
    if (clock.monotonicMs() - sinceMs <= limits.turnLimitMs) return;
    pass();
    throw new KubeError("TooManyRequests", 0, TOO_MANY);
  };
  const pass = (): void => {
    const next = waiting.shift();
    if (next === undefined) underWay -= 1;
    else next();
  };
  return {
    get: async (resource, name) => {
      await turn();
      try {
        return await client.get(resource, name);
      } finally {
        pass();
      }
    },
  };
}

const TOO_MANY = "too many claims of pods are being read at once";
