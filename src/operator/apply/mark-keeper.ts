// Keeps labels and annotations of members' claims and PersistentVolumes as those of the volume's own claim, for the keys that its class
// allows. Nothing depends on them: a volume whose claim is gone keeps what it has, and a failure holds nothing else up.
import type { FilesystemLayout } from "../../contracts/kinds/filesystem-layout.ts";
import { type KubeObject, objectKey } from "../../contracts/kubernetes/object.ts";
import {
  PERSISTENT_VOLUME_CLAIMS,
  PERSISTENT_VOLUMES,
  type PersistentVolume,
  type PersistentVolumeClaim,
} from "../../contracts/kubernetes/resources.ts";
import type { KubeClient } from "../../platform/kube/client/client.ts";
import { isKubeError } from "../../platform/kube/kube-error.ts";
import type { Outcome } from "../../platform/kube/queue/work-queue.ts";
import { BACK_OFFS } from "../../platform/process/async/back-off.ts";
import type { Logger } from "../../platform/process/log.ts";
import type { ClaimCaches } from "../claim/claim-caches.ts";
import { isRemoving } from "../decide/layout-facts.ts";
import { decideMarks, rulesOfRecords } from "../decide/members/member-rules.ts";
import type { VolumeCaches } from "../gather/volume-caches.ts";
import { createLedQueue, type Duty } from "../led-queue.ts";
import { labelledHandle } from "../volumes/member-objects.ts";

const CONCURRENCY = 4;

export interface MarkKeeping {
  readonly client: KubeClient;
  readonly caches: Pick<VolumeCaches, "layouts" | "memberClaims" | "persistentVolumes">;
  /** Of all namespaces. */
  readonly claims: ClaimCaches["claims"];
}

export function createMarkKeeper(keeping: MarkKeeping, synced: Promise<void>, log: Logger): Duty {
  const { layouts, memberClaims, persistentVolumes } = keeping.caches;
  const queue = createLedQueue(
    {
      synced,
      keys: () =>
        layouts.store
          .list()
          .filter(carries)
          .map(({ metadata }) => metadata.name),
    },
    {
      name: "marks",
      concurrency: CONCURRENCY,
      run: (handle) => keepMarks(keeping, handle),
      log,
      backOff: BACK_OFFS.waited,
    },
  );
  const ofMember = (object: KubeObject): void => addHandle(labelledHandle(object));
  const ofLayout = ({ metadata }: FilesystemLayout): void => addHandle(metadata.name);
  const ofClaim = ({ metadata }: PersistentVolumeClaim): void => {
    for (const { metadata: layout } of layouts.store.byIndex("claim-uid", metadata.uid ?? "")) addHandle(layout.name);
  };
  function addHandle(handle: string | undefined): void {
    const layout = layouts.store.get(handle ?? "");
    if (layout !== undefined && carries(layout)) queue.add(layout.metadata.name);
  }
  layouts.subscribe({ added: ofLayout, updated: ofLayout });
  keeping.claims.subscribe({ added: ofClaim, updated: ofClaim });
  memberClaims.subscribe({ added: ofMember, updated: ofMember });
  persistentVolumes.subscribe({ added: ofMember, updated: ofMember });
  return queue;
}

function carries({ metadata, spec }: FilesystemLayout): boolean {
  return spec.backend === "span" && rulesOfRecords(metadata.annotations)?.carried !== undefined;
}

async function keepMarks({ client, caches, claims }: MarkKeeping, handle: string): Promise<Outcome> {
  const layout = caches.layouts.store.get(handle);
  const carried = rulesOfRecords(layout?.metadata.annotations)?.carried;
  if (layout === undefined || carried === undefined || isRemoving(layout)) return "done";
  const { namespace, name = "", uid } = layout.spec.claimRef ?? {};
  const claim = claims.store.get(objectKey({ namespace, name }));
  if (claim === undefined || claim.metadata.uid !== uid) return "done";
  for (const member of caches.memberClaims.store.byIndex("volume", handle)) {
    const marks = decideMarks(carried, claim, member);
    if (marks !== undefined) await unlessGone(() => markClaim(client, member, marks));
    const volume = caches.persistentVolumes.store.get(member.spec.volumeName ?? "");
    const ofVolume = volume && isMembers(volume, member) ? decideMarks(carried, claim, volume) : undefined;
    if (volume !== undefined && ofVolume !== undefined) await unlessGone(() => markVolume(client, volume, ofVolume));
  }
  return "done";
}

/** True once the operator has set the volume to Retain: before that nothing says that it is a member's. */
function isMembers(volume: PersistentVolume, member: PersistentVolumeClaim): boolean {
  const isOfVolume = labelledHandle(volume) !== undefined && labelledHandle(volume) === labelledHandle(member);
  return isOfVolume && volume.spec.claimRef?.uid === member.metadata.uid;
}

async function markClaim(client: KubeClient, { metadata }: PersistentVolumeClaim, marks: object): Promise<void> {
  const { namespace, name, uid } = metadata;
  const patch = { metadata: { uid, ...marks } };
  await client.mergePatch("member/mark-claim", PERSISTENT_VOLUME_CLAIMS, { namespace, name }, patch);
}

async function markVolume(client: KubeClient, { metadata }: PersistentVolume, marks: object): Promise<void> {
  const { name, uid } = metadata;
  const patch = { metadata: { uid, ...marks } };
  await client.mergePatch("member/mark-volume", PERSISTENT_VOLUMES, { name }, patch);
}

/** Ignores that the object was deleted, or recreated, after it was cached: its watch reports that. */
async function unlessGone(mark: () => Promise<void>): Promise<void> {
  try {
    await mark();
  } catch (error) {
    if (!isKubeError(error, "NotFound") && !isKubeError(error, "Conflict")) throw error;
  }
}
