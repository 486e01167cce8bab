// Carries the size that the policy-engine wants into the layout, which is what a node acts on. One namespace's spans take their turns,
// since they share its quotas.
import { FILESYSTEMS, type Filesystem, type WantedTarget } from "../../api/filesystem.ts";
import type { FilesystemLayout, MemberSpec } from "../../api/filesystem-layout.ts";
import { filesystemSizeBytes } from "../../api/filesystem-size.ts";
import type { KubeClient } from "../../kube/client/client.ts";
import type { EventRecorder } from "../../kube/events/events.ts";
import type { Clock } from "../../process/clock.ts";
import type { Consolidations } from "../consolidation/consolidations.ts";
import { hasBegun, isOnlyOrdered, type MergeWay, unchanged } from "../member/decide-consolidation.ts";
import { replacingMember, withoutFormerMarks } from "../member/decide-replacement.ts";
import { readMemberClass } from "../member/member-class.ts";
import { withRefusals } from "../member/refused-members.ts";
import type { Turns } from "../member/turns.ts";
import { decideTarget } from "./decide-target.ts";
import { isAtRest } from "./layout-facts.ts";
import type { LayoutFields } from "./layout-fields.ts";
import type { LayoutWriter } from "./layout-writer.ts";
import {
  type DecidedFields,
  fieldsAfterVainGrowth,
  isHold,
  type TargetRefusal,
  targetFields,
} from "./target-fields.ts";

export interface TargetCarrying {
  readonly client: KubeClient;
  readonly layouts: LayoutWriter;
  readonly events: EventRecorder;
  readonly clock: Clock;
  /** By namespace, whose volumes share its quotas. */
  readonly turns: Turns;
  /** What a namespace may have of a members' class where no ResourceQuota says it. */
  readonly budgetBytes: number;
  readonly consolidations: Pick<Consolidations, "tryBegin" | "isAwaited">;
}

export interface Carried {
  readonly layout: FilesystemLayout | undefined;
  /** Why a target stays behind. */
  readonly refusal?: TargetRefusal;
}

/** Idempotent; both may come from a cache. Throws KubeError. */
export function carryTarget(
  carrying: TargetCarrying,
  layout: FilesystemLayout,
  filesystem: Filesystem,
): Promise<Carried> {
  if (decideTarget(layout, filesystem).do === "keep") return Promise.resolve({ layout });
  const carryNow = (): Promise<Carried> => carry(carrying, layout, filesystem);
  return layout.spec.backend === "span"
    ? carrying.turns.take(layout.spec.claimRef?.namespace ?? "", carryNow)
    : carryNow();
}

/** `mergeBy`: members may be merged now, so; absent: that has begun. */
function beginningOf(
  { tryBegin, isAwaited }: TargetCarrying["consolidations"],
  layout: FilesystemLayout,
  wanted: WantedTarget,
): DecidedFields | { readonly mergeBy?: MergeWay } {
  const sizeBytes = filesystemSizeBytes(layout);
  // One that is mounted nowhere keeps it as the spare that it is: that takes no slot where it is mounted next.
  if (isOnlyOrdered(layout, wanted) && sizeBytes !== undefined && isAtRest(layout) && !isAwaited(layout, wanted))
    return { fields: withdrawn(layout, wanted, sizeBytes) };
  if (hasBegun(layout, wanted)) return {};
  const beginning = tryBegin(layout);
  if (beginning === "grow" || beginning === "replace") return { mergeBy: beginning };
  if (beginning === "wait" || sizeBytes === undefined)
    return {
      refusal: {
        reason: "WaitingForMember",
        message: "members are merged for one pod and on one node at a time: it is tried again",
      },
    };
  return { fields: withdrawn(layout, wanted, sizeBytes) };
}

/** Nobody waits for it any more, or it is not to be had: the decision counts as carried out, and what was made for it goes. */
function withdrawn(
  layout: FilesystemLayout,
  { epoch, decidedAt, size, from }: WantedTarget,
  sizeBytes: number,
): LayoutFields {
  const target = unchanged({ size, from, epoch, decidedAt }, sizeBytes);
  const made = replacingMember(layout, target);
  const members = withoutFormerMarks(layout, layout.spec.members ?? [], decidedAt).map(
    (one): MemberSpec => (one.name === made?.name ? { ...one, state: "Removed" } : one),
  );
  return { target, members };
}

/**
 * Copies a newer target to the layout, with the members that it takes. One that may take members is read from the API server first:
 * after etcd was put back, a cache may still show a target from before, and empty members would be made for it.
 */
async function carry(
  { client, layouts, events, clock, budgetBytes, consolidations }: TargetCarrying,
  layout: FilesystemLayout,
  filesystem: Filesystem,
): Promise<Carried> {
  const memberClass = await readMemberClass(client, layout, budgetBytes, clock.nowMs());
  const growthTimeMs = memberClass?.growthTimeMs ?? clock.nowMs();
  let refusal: TargetRefusal | undefined;
  const written = await layouts.update("carry-target/layout", layout, async (live) => {
    refusal = undefined;
    const current = withRefusals(live);
    const wanting = current.spec.backend === "span" ? await client.get(FILESYSTEMS, filesystem.metadata) : filesystem;
    if (wanting === undefined || wanting.metadata.uid !== filesystem.metadata.uid) return undefined;
    const plan = decideTarget(current, wanting);
    if (plan.do === "refuse") refusal = { reason: "StaleEpoch", message: plan.message };
    if (plan.do === "settle-growth") return fieldsAfterVainGrowth(current, memberClass, growthTimeMs);
    if (plan.do === "withdraw") return { members: plan.members };
    if (plan.do !== "copy") return undefined;
    const merging = plan.target.members === undefined ? {} : beginningOf(consolidations, current, plan.target);
    const decided =
      "fields" in merging || "refusal" in merging
        ? merging
        : targetFields(current, plan.target, memberClass && { ...memberClass, ...merging }, growthTimeMs);
    if ("fields" in decided) return decided.fields;
    refusal = decided.refusal;
    return decided.settled;
  });
  if (refusal !== undefined) {
    const type = isHold(refusal) ? "Normal" : "Warning";
    events.record(filesystem, type, refusal.reason, refusal.message);
  }
  return { layout: written, refusal };
}
