// Carries what the policy-engine wants into the layout, which is what a node acts on: in one write, before anything is made for it. One
// namespace's spans take their turns, since they share its quotas.
import { FILESYSTEMS, type Filesystem } from "../../contracts/kinds/filesystem.ts";
import type { FilesystemLayout } from "../../contracts/kinds/filesystem-layout.ts";
import type { KubeClient } from "../../platform/kube/client/client.ts";
import { sameObject } from "../../platform/kube/client/writes.ts";
import type { EventRecorder } from "../../platform/kube/events/events.ts";
import type { KeyedQueue } from "../../platform/process/async/keyed-queue.ts";
import type { Clock } from "../../platform/process/clock.ts";
import type { Consolidations } from "../consolidation/consolidations.ts";
import type { TurnEnd } from "../consolidation/merge-turns.ts";
import {
  decideLayoutWrite,
  decideTrim,
  isHold,
  type LayoutWrite,
  needsTurn,
  type TargetRefusal,
} from "../decide/decide-layout-write.ts";
import { decideTarget, type TargetPlan } from "../decide/decide-target.ts";
import type { VolumeFacts } from "../gather/gather-volume.ts";
import { readMemberClass } from "../gather/member-room.ts";
import type { LayoutWriter } from "./volume-objects.ts";

export interface TargetCarrying {
  readonly client: KubeClient;
  readonly layouts: LayoutWriter;
  readonly events: EventRecorder;
  readonly clock: Clock;
  /** By namespace, whose volumes share its quotas. */
  readonly turns: KeyedQueue;
  /** What a namespace may have of a members' class where no ResourceQuota says it. */
  readonly budgetBytes: number;
  readonly consolidations: Pick<Consolidations, "reserve" | "isPodGone">;
}

export interface Carried {
  readonly layout: FilesystemLayout | undefined;
  /** Why a target stays behind. */
  readonly refusal: TargetRefusal | undefined;
}

/** Idempotent; both may come from a cache. Throws KubeError. */
export async function carryTarget(
  carrying: TargetCarrying,
  { layout, filesystem }: Pick<VolumeFacts, "layout" | "filesystem">,
): Promise<Carried> {
  if (layout === undefined || filesystem === undefined) return { layout, refusal: undefined };
  const plan = decideTarget(layout, filesystem);
  if (plan.do === "keep" && decideTrim(layout, filesystem).do === "keep") return { layout, refusal: undefined };
  if (layout.spec.backend !== "span") return carry(carrying, layout, filesystem, plan);
  const namespace = layout.spec.claimRef?.namespace ?? "";
  return carrying.turns.run(namespace, () => carry(carrying, layout, filesystem, plan));
}

/**
 * Decides again on the layout as it is. A Filesystem whose target may take members is read from the API server first: after etcd was put
 * back, a cache may still show a target from before, and empty members would be made for it. `plan`: by the caches.
 */
async function carry(
  { client, layouts, events, clock, budgetBytes, consolidations }: TargetCarrying,
  layout: FilesystemLayout,
  filesystem: Filesystem,
  plan: TargetPlan,
): Promise<Carried> {
  const memberClass = await readMemberClass(client, layout, budgetBytes, clock.nowMs());
  const nowMs = clock.nowMs();
  const turn = plan.do === "copy" && needsTurn(layout, plan.target) ? consolidations.reserve(layout) : undefined;
  const isPodGone = consolidations.isPodGone(layout.metadata.name);
  const facts = {
    memberClass,
    growthTimeMs: memberClass?.growthTimeMs ?? nowMs,
    merge: { turn, isPodGone, nowMs },
  };
  let write: LayoutWrite = {};
  // A write that throws may have begun the merge all the same.
  let end: TurnEnd = "Perhaps";
  let written: FilesystemLayout | undefined;
  try {
    written = await layouts.update("carry-target/layout", layout, async (live) => {
      const wanting =
        live.spec.backend === "span"
          ? sameObject(filesystem, await client.get(FILESYSTEMS, filesystem.metadata))
          : filesystem;
      write = wanting === undefined ? {} : decideLayoutWrite(live, wanting, facts);
      return write.fields;
    });
    end = write.beginsMerge === true && written !== undefined ? written : "Nothing";
  } finally {
    turn?.end(end);
  }
  const { refusal } = write;
  if (refusal !== undefined) {
    const type = isHold(refusal) ? "Normal" : "Warning";
    events.record(filesystem, type, refusal.reason, refusal.message);
  }
  return { layout: written, refusal };
}
