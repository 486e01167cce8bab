// Makes the LogicalVolume of a new volume, once, and waits by watch until its node's agent has made the volume of LVM. One that is
// there already is waited for, and never changed; one that cannot be had is taken back, so that another node can be asked.
import { LOGICAL_VOLUMES, type LogicalVolume, type LogicalVolumeSpec } from "../../api/logical-volume.ts";
import { API_VERSION } from "../../api/names.ts";
import { Refusal, type RefusalCode } from "../../csi/refusal.ts";
import type { Reflector } from "../../kube/cache/reflector.ts";
import type { KubeClient } from "../../kube/client/client.ts";
import { isKubeError } from "../../kube/kube-error.ts";
import type { CacheWait } from "../volume/cache-wait.ts";
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

/** The LogicalVolume with the volume of LVM behind it. Idempotent. Throws KubeError. */
export async function makeLogicalVolume(
  making: MakingLogicalVolume,
  name: string,
  asked: WantedLogicalVolume,
): Promise<LogicalVolume | Refusal> {
  const wanted = await takeOrFind(making.client, name, asked);
  if (wanted === undefined) return new Refusal("ABORTED", `LogicalVolume ${name} was deleted meanwhile; ask again`);
  const seen = await untilSettled(making, wanted);
  if (seen === undefined) return new Refusal("ABORTED", `LogicalVolume ${name} was deleted meanwhile; ask again`);
  if (madeVolume(seen) !== undefined) return seen;
  const failure = finalFailure(seen);
  return failure === undefined ? notYet(seen, making.makingWaitLimitMs) : giveUp(making.client, seen, failure);
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
async function untilSettled(
  { logicalVolumes, logicalVolumeChange, makingWaitLimitMs }: MakingLogicalVolume,
  wanted: LogicalVolume,
): Promise<LogicalVolume | undefined> {
  const { name, uid } = wanted.metadata;
  const isSettled = (one: LogicalVolume): boolean => madeVolume(one) !== undefined || finalFailure(one) !== undefined;
  const isOurs = (one: LogicalVolume | undefined): one is LogicalVolume => one?.metadata.uid === uid;
  let latest: LogicalVolume | undefined = wanted;
  const cached = logicalVolumes.store.get(name);
  if (isOurs(cached) && isSettled(cached)) return cached;
  if (isSettled(wanted)) return wanted;
  // Until the cache has shown it, what it says of the name is from before.
  let isShown = isOurs(cached);
  await logicalVolumeChange(
    name,
    (one) => {
      isShown ||= isOurs(one);
      if (!isShown) return false;
      latest = isOurs(one) ? one : undefined;
      return latest === undefined || isSettled(latest);
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
async function giveUp(
  client: KubeClient,
  { metadata, spec, status }: LogicalVolume,
  code: FinalCode,
): Promise<Refusal> {
  const { name, uid, resourceVersion } = metadata;
  try {
    await client.delete("create-volume/take-back", LOGICAL_VOLUMES, { name }, { uid, resourceVersion });
  } catch (error) {
    if (!isKubeError(error, "Conflict")) throw error;
    return new Refusal("ABORTED", `LogicalVolume ${name} has changed meanwhile; ask again`);
  }
  return new Refusal(
    ANSWER_OF[code],
    `node ${spec.nodeName} cannot make ${spec.size} in device class ${spec.deviceClass}: ${status?.message ?? code}`,
  );
}
