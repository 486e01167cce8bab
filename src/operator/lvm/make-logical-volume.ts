// Makes the LogicalVolume of a new volume, once, and waits by watch until its node's agent has made the volume of LVM; one that cannot be
// had is taken back, so that another node can be asked. Of a volume that has its layout, one that was deleted is recreated as the name of
// the volume of LVM that is there, so that no node ever makes another; and it names the claim that has the volume now.
import { Refusal, type RefusalCode } from "../../contracts/csi/refusal.ts";
import type { FilesystemLayout } from "../../contracts/kinds/filesystem-layout.ts";
import { LOGICAL_VOLUMES, type LogicalVolume, type LogicalVolumeSpec } from "../../contracts/kinds/logical-volume.ts";
import { API_VERSION, FIELD_MANAGERS } from "../../contracts/names.ts";
import { formatQuantity } from "../../contracts/quantities/quantity.ts";
import type { Reflector } from "../../platform/kube/cache/reflector.ts";
import type { KubeClient } from "../../platform/kube/client/client.ts";
import { isKubeError } from "../../platform/kube/kube-error.ts";
import { readLayout } from "../apply/volume-objects.ts";
import { isRemoving, presentBytes } from "../decide/layout-facts.ts";
import type { CacheWait } from "../gather/cache-waits.ts";
import type { VolumeCaches } from "../gather/volume-caches.ts";
import { sizesOfRecords } from "../volumes/volume-record.ts";
import { type FinalCode, finalFailure, madeVolume } from "./logical-volume-state.ts";

export interface MakingLogicalVolume {
  readonly client: KubeClient;
  readonly logicalVolumes: Reflector<LogicalVolume>;
  readonly logicalVolumeChange: CacheWait<LogicalVolume>;
  /** How long one call waits for the node. */
  readonly makingWaitLimitMs: number;
}

/** Under csi-provisioner's timeout of 60 s (kustomize/base), after which it would ask again anyway. */
export const MAKING_WAIT_LIMIT_MS = 50_000;

interface WantedLogicalVolume {
  readonly annotations: Readonly<Record<string, string>>;
  readonly spec: LogicalVolumeSpec;
}

/** The LogicalVolume with the volume of LVM behind it. Idempotent. Throws Refusal and KubeError. */
export async function makeLogicalVolume(
  making: MakingLogicalVolume,
  name: string,
  asked: WantedLogicalVolume,
): Promise<LogicalVolume> {
  const wanted = await takeOrFind(making.client, name, asked);
  if (wanted === undefined) throw new Refusal("ABORTED", `LogicalVolume ${name} was deleted concurrently; retry`);
  const seen = await untilAnswered(making, wanted);
  if (seen === undefined) throw new Refusal("ABORTED", `LogicalVolume ${name} was deleted concurrently; retry`);
  if (madeVolume(seen) !== undefined) return seen;
  const failure = finalFailure(seen);
  if (failure === undefined) throw notYet(seen, making.makingWaitLimitMs);
  await takeBack(making.client, seen);
  throw impossible(seen, failure);
}

/** Its callers have looked for it right before. */
async function takeOrFind(
  client: KubeClient,
  name: string,
  { annotations, spec }: WantedLogicalVolume,
): Promise<LogicalVolume | undefined> {
  const metadata = { name, annotations: { ...annotations } };
  const logicalVolume: LogicalVolume = { apiVersion: API_VERSION, kind: "LogicalVolume", metadata, spec };
  try {
    return await client.create("create-volume/logical-volume", LOGICAL_VOLUMES, logicalVolume);
  } catch (error) {
    if (!isKubeError(error, "AlreadyExists")) throw error;
    return client.get(LOGICAL_VOLUMES, { name });
  }
}

/** As the cache has it then; undefined: it was deleted. */
async function untilAnswered(
  { logicalVolumes, logicalVolumeChange, makingWaitLimitMs }: MakingLogicalVolume,
  wanted: LogicalVolume,
): Promise<LogicalVolume | undefined> {
  const { name, uid } = wanted.metadata;
  const isAnswered = (one: LogicalVolume): boolean => madeVolume(one) !== undefined || finalFailure(one) !== undefined;
  const isOurs = (one: LogicalVolume | undefined): one is LogicalVolume => one?.metadata.uid === uid;
  let latest: LogicalVolume | undefined = wanted;
  const cached = logicalVolumes.store.get(name);
  if (isOurs(cached) && isAnswered(cached)) return cached;
  if (isAnswered(wanted)) return wanted;
  // Until the cache has shown it, what it says of the name is from before.
  let isShown = isOurs(cached);
  await logicalVolumeChange(
    name,
    (one) => {
      isShown ||= isOurs(one);
      if (!isShown) return false;
      latest = isOurs(one) ? one : undefined;
      return latest === undefined || isAnswered(latest);
    },
    makingWaitLimitMs,
  );
  return latest;
}

function notYet({ metadata, spec, status }: LogicalVolume, limitMs: number): Refusal {
  const why = status?.message === undefined ? "" : `; the node says: ${status.message}`;
  return new Refusal(
    "ABORTED",
    `${metadata.name}: node ${spec.nodeName} has not made the volume in device class ${spec.deviceClass} within ${limitMs} ms${why}; it goes on, ask again`,
  );
}

/** RESOURCE_EXHAUSTED lets csi-provisioner ask the scheduler for another node: one may have what this one does not. */
const ANSWER_OF: Readonly<Record<FinalCode, RefusalCode>> = {
  INVALID_ARGUMENT: "INVALID_ARGUMENT",
  NOT_FOUND: "RESOURCE_EXHAUSTED",
  RESOURCE_EXHAUSTED: "RESOURCE_EXHAUSTED",
  OUT_OF_RANGE: "OUT_OF_RANGE",
  // A thick snapshot, which no node of this class can make.
  UNIMPLEMENTED: "FAILED_PRECONDITION",
};

/** Only while nothing was made: a node that has made it since has changed the object. */
async function takeBack(client: KubeClient, { metadata }: LogicalVolume): Promise<void> {
  const { name, uid, resourceVersion } = metadata;
  try {
    await client.delete("create-volume/take-back", LOGICAL_VOLUMES, { name }, { uid, resourceVersion });
  } catch (error) {
    if (!isKubeError(error, "Conflict")) throw error;
    throw new Refusal("ABORTED", `LogicalVolume ${name} has changed concurrently; retry`);
  }
}

function impossible({ spec, status }: LogicalVolume, code: FinalCode): Refusal {
  return new Refusal(
    ANSWER_OF[code],
    `node ${spec.nodeName} cannot make ${spec.size} in device class ${spec.deviceClass}: ${status?.message ?? code}`,
  );
}

interface ReconcilingLogicalVolume {
  readonly client: KubeClient;
  readonly caches: Pick<VolumeCaches, "logicalVolumes">;
}

/** Whether it was recreated. Idempotent; `layout` may come from a cache. Throws KubeError. */
export async function reconcileLogicalVolume(
  { client, caches }: ReconcilingLogicalVolume,
  layout: FilesystemLayout,
): Promise<boolean> {
  const existing = caches.logicalVolumes.store.get(layout.metadata.name);
  if (existing === undefined) return restore(client, layout);
  if (isOfClaim(existing, layout)) return false;
  await tellClaim(client, existing, layout);
  return false;
}

function isOfClaim({ spec }: LogicalVolume, layout: FilesystemLayout): boolean {
  return layout.spec.claimRef === undefined || layout.spec.claimRef.uid === spec.claimRef?.uid;
}

async function restore(client: KubeClient, { metadata: { name, uid } }: FilesystemLayout): Promise<boolean> {
  // The caches are filled apart: of a volume that is deleted the LogicalVolume may have gone from its cache first.
  const layout = await readLayout(client, name);
  if (layout === undefined || layout.metadata.uid !== uid || isRemoving(layout)) return false;
  const spec = specOf(layout);
  if (spec === undefined) return false;
  const logicalVolume: LogicalVolume = { apiVersion: API_VERSION, kind: "LogicalVolume", metadata: { name }, spec };
  try {
    await client.create("rebuild/logical-volume", LOGICAL_VOLUMES, logicalVolume);
    return true;
  } catch (error) {
    if (!isKubeError(error, "AlreadyExists")) throw error;
    return false;
  }
}

/** Undefined: the layout does not say where the volume is. */
function specOf(layout: FilesystemLayout): LogicalVolumeSpec | undefined {
  const { nodeName, claimRef, members } = layout.spec;
  const source = members?.[0]?.source.logicalVolume;
  if (nodeName === undefined || source === undefined) return undefined;
  const { volumeID, deviceClass } = source;
  // The node says in the status what it has: nothing is made of this one.
  const bytes = presentBytes(layout) ?? sizesOfRecords(layout.metadata.annotations).requestedBytes ?? 0;
  return { nodeName, deviceClass, size: formatQuantity(bytes), volumeID, ...(claimRef && { claimRef }) };
}

async function tellClaim(client: KubeClient, existing: LogicalVolume, { spec }: FilesystemLayout): Promise<void> {
  const { name, uid } = existing.metadata;
  const told = { apiVersion: API_VERSION, kind: LOGICAL_VOLUMES.kind, metadata: { name, uid } };
  await client.apply(
    "rebuild/logical-volume-claim",
    LOGICAL_VOLUMES,
    { ...told, spec: { claimRef: spec.claimRef } },
    { fieldManager: FIELD_MANAGERS.operator, force: true },
  );
}
