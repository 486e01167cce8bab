// Says the operator's part of a Filesystem's status, under the version that it was decided on. Where another process
// has written since, the operator decides again on what stands there. So a policy-engine that reports faster than the
// operator looks never holds it up.
import { FILESYSTEMS, type Filesystem } from "../../contracts/kinds/filesystem.ts";
import type { FilesystemLayout } from "../../contracts/kinds/filesystem-layout.ts";
import { objectKey } from "../../contracts/kubernetes/object.ts";
import { NODES } from "../../contracts/kubernetes/resources.ts";
import { FIELD_MANAGERS } from "../../contracts/names.ts";
import type { ApplyConfiguration, KubeClient } from "../../platform/kube/client/client.ts";
import { type OwnWrites, onLatest, sameObject, shows } from "../../platform/kube/client/writes.ts";
import { isKubeError } from "../../platform/kube/kube-error.ts";
import type { Clock } from "../../platform/process/clock.ts";
import type { EffectPoint } from "../../platform/process/effects/effects.ts";
import type { Consolidations } from "../consolidation/consolidations.ts";
import { decideStatus, type StatusFacts, silentForMs, unfitShown } from "../decide/decide-status.ts";
import type { VolumeCaches } from "../gather/volume-caches.ts";
import { describeLoss, lossOf, nodeOfLocal } from "../node-loss/decide-node-loss.ts";
import { saidByOperator } from "../volumes/layout-fields.ts";

const APPLY = { fieldManager: FIELD_MANAGERS.operator, force: true } as const;

/**
 * `decide` gets the live Filesystem with the generation of `filesystem`, which the facts are of. A status that is
 * behind the Filesystem's generation reads as "in progress". Nothing is written where the Filesystem is gone or is
 * another one, or where an operator has said anything else since. That operator knew more, and its change makes the
 * queue check the volume again. Returns the Filesystem as it is then, where it was written. Throws KubeError:
 * "Conflict" where each attempt met one, for the queue's back-off.
 */
export async function reportFilesystem(
  client: KubeClient,
  point: EffectPoint,
  filesystem: Filesystem,
  decide: (live: Filesystem) => ApplyConfiguration,
): Promise<Filesystem | undefined> {
  const { generation } = filesystem.metadata;
  return onLatest<Filesystem | undefined, Filesystem | undefined>(
    filesystem,
    async () => sameObject(filesystem, await client.get(FILESYSTEMS, filesystem.metadata)),
    async (live) => {
      if (live === undefined || !saysTheSame(live, filesystem)) return undefined;
      const seen = { ...live, metadata: { ...live.metadata, ...(generation === undefined ? {} : { generation }) } };
      return applyUnlessGone(client, point, decide(seen));
    },
  );
}

function saysTheSame({ status: live }: Filesystem, { status: before }: Filesystem): boolean {
  const [now, then] = [saidByOperator(live), saidByOperator(before)];
  return shows(now, then) && shows(then, now);
}

async function applyUnlessGone(
  client: KubeClient,
  point: EffectPoint,
  status: ApplyConfiguration,
): Promise<Filesystem | undefined> {
  try {
    return await client.apply(point, FILESYSTEMS, status, { ...APPLY, subresource: "status" });
  } catch (error) {
    if (isKubeError(error, "NotFound")) return undefined;
    throw error;
  }
}

export interface VolumeReporting {
  readonly client: KubeClient;
  readonly clock: Clock;
  readonly caches: Pick<VolumeCaches, "filesystems" | "nodes">;
  readonly consolidations: Pick<Consolidations, "needOf" | "unfitOf">;
  /** Of Filesystems: what was just said is not said again because a cache does not show it yet. */
  readonly ownWrites: OwnWrites<Filesystem>;
}

/** What the reconcile has found and done. */
export type VolumeReport = Omit<StatusFacts, "lostNode" | "consolidation" | "unfit">;

/** Returns how long the status may stay unwritten, in milliseconds, where it is not written yet. Throws KubeError. */
export async function reportVolume(reporting: VolumeReporting, report: VolumeReport): Promise<number | undefined> {
  const { client, clock, caches, consolidations, ownWrites } = reporting;
  const { handle, filesystem, layout } = report;
  const facts = {
    ...report,
    lostNode: layout && (await lostNodeOf(client, caches, layout)),
    consolidation: consolidations.needOf(handle, filesystem.status?.consolidation),
    unfit: consolidations.unfitOf(handle, unfitShown(filesystem)),
  };
  const status = decideStatus(facts, clock.nowMs());
  if (shows(filesystem, status)) return undefined;
  const silentMs = silentForMs(filesystem, layout, status, clock.nowMs());
  if (silentMs !== undefined) return silentMs;
  // Read before the write: what the cache shows by its end may be newer than the answer.
  const shown = caches.filesystems.store.get(objectKey(filesystem.metadata));
  const written = await reportFilesystem(client, "report-status/filesystem", filesystem, (live) =>
    decideStatus({ ...facts, filesystem: live }, clock.nowMs()),
  );
  if (written !== undefined) ownWrites.wrote(shown, written);
  return undefined;
}

/** A loss that the caches show counts once the API server shows it, too. */
async function lostNodeOf(
  client: KubeClient,
  { nodes }: Pick<VolumeCaches, "nodes">,
  layout: FilesystemLayout,
): Promise<string | undefined> {
  const name = nodeOfLocal(layout);
  if (name === undefined || lossOf(nodes.store.get(name)) === undefined) return undefined;
  const loss = lossOf(await client.get(NODES, { name }));
  return loss && describeLoss(name, loss);
}
