// One volume made consistent: gather, decide, apply, report. The target goes first, since a filling disk waits for it; the
// status follows. What was lost is made again before anything else is decided on it.
import type { Filesystem } from "../../api/filesystem.ts";
import type { FilesystemLayout } from "../../api/filesystem-layout.ts";
import { shows } from "../../kube/client/apply-on-change.ts";
import type { Outcome } from "../../kube/queue/work-queue.ts";
import { NODES } from "../../kube/resources.ts";
import type { Consolidations } from "../consolidation/consolidations.ts";
import { tendLogicalVolume } from "../lvm/tend-logical-volume.ts";
import { type ClassFailure, classFailure, growthNews } from "../member/member-growth.ts";
import { type Placing, UnsafeHomeError } from "../member/member-home.ts";
import { rulesOfRecords } from "../member/member-rules.ts";
import type { Pace } from "../member/pace.ts";
import { departureMessage } from "../member/record-sources.ts";
import { newlyRefused, refusalMessage } from "../member/refused-members.ts";
import { restoreClaims } from "../member/restore-claims.ts";
import { type MemberReport, tendMembers } from "../member/tend-members.ts";
import { tendSpare } from "../member/tend-spare.ts";
import type { OperatorMetrics } from "../metrics.ts";
import { describeLoss, lossOf, nodeOfLocal } from "../node-loss/lost-node.ts";
import { reportFilesystem } from "../report-filesystem.ts";
import { carryTarget, type TargetCarrying } from "./carry-target.ts";
import { carryTrim } from "./carry-trim.ts";
import { decideRebuild, looksLost, needsMembers } from "./decide-rebuild.ts";
import { decideStatus, unfitShown } from "./decide-status.ts";
import { writeFilesystem } from "./filesystem-writer.ts";
import { gatherFacts, gatherLiveFacts, type VolumeFacts } from "./gather.ts";
import { isRemoving } from "./layout-facts.ts";
import { makeLayout, readLayout } from "./new-layout.ts";
import { untoldForMs } from "./passing-state.ts";
import type { TargetRefusal } from "./target-fields.ts";
import type { VolumeCaches } from "./volume-caches.ts";

export interface VolumeReconciling extends TargetCarrying, Placing {
  readonly caches: VolumeCaches;
  readonly metrics: OperatorMetrics;
  readonly reselection: Pace;
  readonly making: Pace;
  readonly consolidations: Pick<Consolidations, "needOf" | "unfitOf" | "tryBegin" | "isAwaited">;
}

/** What a member fails for, such as a quota or a node without room, comes and goes without a change of the volume. */
const FAILED_RETRY_MS = 30_000;
/** A provisioner says in Events what it cannot do, and those are not watched. */
const WAITING_RETRY_MS = 10_000;

export async function reconcileVolume(reconciling: VolumeReconciling, handle: string): Promise<Outcome> {
  const cached = gatherFacts(reconciling.caches, handle);
  // An ordinary claim is no volume of ours: src/operator/claim/ looks after it.
  if (cached.layout?.spec.backend === "claim") return "done";
  const { facts, missing, unsafe } = await rebuild(reconciling, cached);
  const { filesystem } = facts;
  if (facts.layout !== undefined && isRemoving(facts.layout)) return "done";
  sayRefused(reconciling, facts);
  const carried =
    facts.layout && filesystem ? await carryTarget(reconciling, facts.layout, filesystem) : { layout: facts.layout };
  const { refusal } = carried;
  const layout =
    carried.layout && filesystem ? await carryTrim(reconciling.layouts, carried.layout, filesystem) : carried.layout;
  if (layout?.spec.backend === "lvm") await tendLvm(reconciling, layout, filesystem);
  const noGrowth = failureOfClass(reconciling, layout);
  const members = layout?.spec.backend === "span" ? await tendSpan(reconciling, layout, filesystem, noGrowth) : unsafe;
  const outcome = noLaterThan(noGrowth, outcomeOf(members, refusal), reconciling.clock.nowMs());
  if (filesystem === undefined || (layout === undefined && missing.length === 0 && unsafe === undefined))
    return outcome;
  const lostNode = layout && (await lostNodeOf(reconciling, layout));
  const consolidation = reconciling.consolidations.needOf(handle, filesystem.status?.consolidation);
  const unfit = reconciling.consolidations.unfitOf(handle, unfitShown(filesystem));
  const said = { handle, filesystem, layout, missing, refusal, members, noGrowth, lostNode, consolidation, unfit };
  const untoldMs = await reportStatus(reconciling, said);
  return untoldMs === undefined ? outcome : { againAfterMs: untoldMs };
}

/** Once, by what the layout does not say yet. */
function sayRefused({ events }: VolumeReconciling, { layout, filesystem }: VolumeFacts): void {
  if (layout === undefined) return;
  for (const member of newlyRefused(layout))
    events.record(filesystem ?? layout, "Warning", "SignatureFound", refusalMessage(layout, member));
}

async function tendLvm(
  reconciling: VolumeReconciling,
  layout: FilesystemLayout,
  filesystem: Filesystem | undefined,
): Promise<void> {
  if (!(await tendLogicalVolume(reconciling, layout))) return;
  const { metrics, events } = reconciling;
  metrics.rebuilt("LogicalVolume");
  events.record(
    filesystem ?? layout,
    "Normal",
    "Rebuilt",
    `LogicalVolume ${layout.metadata.name} had been deleted, and was made again from the FilesystemLayout`,
  );
}

/** What the caches show is no loss before the API server says so. */
async function lostNodeOf(
  { client, caches }: VolumeReconciling,
  layout: FilesystemLayout,
): Promise<string | undefined> {
  const name = nodeOfLocal(layout);
  if (name === undefined || lossOf(caches.nodes.store.get(name)) === undefined) return undefined;
  const loss = lossOf(await client.get(NODES, { name }));
  return loss && describeLoss(name, loss);
}

/** What is remembered of the members' class, where that makes a difference to the volume. */
function failureOfClass(
  { caches, clock }: VolumeReconciling,
  layout: FilesystemLayout | undefined,
): ClassFailure | undefined {
  if (layout?.spec.backend !== "span") return undefined;
  const rules = rulesOfRecords(layout.metadata.annotations);
  if (rules === undefined || rules.strategy === "AddMember") return undefined;
  // The layout that was just written may not be in the cache yet.
  return classFailure([layout, ...caches.layouts.store.list()], rules.className, clock.nowMs());
}

async function tendSpan(
  reconciling: VolumeReconciling,
  layout: FilesystemLayout,
  filesystem: Filesystem | undefined,
  noGrowth: ClassFailure | undefined,
): Promise<MemberReport> {
  const { events, clock } = reconciling;
  const { left, ...report } = await tendMembers(reconciling, layout, (current) =>
    noGrowth === undefined ? undefined : growthNews(current, noGrowth, clock.nowMs()),
  );
  for (const member of left) events.record(filesystem ?? layout, "Normal", "MemberLeft", departureMessage(member));
  return { ...report, spare: report.spare ?? (await tendSpare(reconciling, layout)) };
}

function outcomeOf(members: MemberReport | undefined, refusal: TargetRefusal | undefined): Outcome {
  if (members === undefined) return "done";
  if (refusal?.reason === "QuotaExceeded") return { againAfterMs: FAILED_RETRY_MS };
  if (refusal?.reason === "WaitingForMember") return { againAfterMs: WAITING_RETRY_MS };
  if (members.problem !== undefined || members.spare !== undefined) return { againAfterMs: FAILED_RETRY_MS };
  return members.waiting.length > 0 ? { againAfterMs: WAITING_RETRY_MS } : "done";
}

/** What is remembered is said until it is forgotten. */
function noLaterThan(noGrowth: ClassFailure | undefined, outcome: Outcome, nowMs: number): Outcome {
  if (noGrowth === undefined) return outcome;
  const againAfterMs = Math.max(1, noGrowth.untilMs - nowMs);
  return outcome !== "done" && outcome.againAfterMs < againAfterMs ? outcome : { againAfterMs };
}

/** The facts as they are then, and what the record lacks. */
interface Rebuilt {
  readonly facts: VolumeFacts;
  readonly missing: readonly string[];
  /** Why its members have no claims; then nothing is made of those that do. */
  readonly unsafe?: MemberReport;
}

/** Makes again what is really gone. */
async function rebuild(reconciling: VolumeReconciling, cached: VolumeFacts): Promise<Rebuilt> {
  if (!looksLost(cached)) return { facts: cached, missing: [] };
  const { client, events, metrics, layouts } = reconciling;
  let live = await gatherLiveFacts(client, cached);
  const restored = needsMembers(live) ? await restore(reconciling, cached.handle) : [];
  if (restored instanceof UnsafeHomeError) {
    const problem = { reason: "MemberFailed" as const, message: restored.message };
    return { facts: live, missing: [], unsafe: { waiting: [], problem, spare: undefined } };
  }
  if (restored.length > 0) live = await gatherLiveFacts(client, cached);
  const plan = decideRebuild(live);
  if (plan === undefined) return { facts: live, missing: [] };
  const { claimRef } = plan;
  const kept =
    claimRef && live.layout ? await layouts.update("rebuild/claim", live.layout, () => ({ claimRef })) : live.layout;
  const made = plan.layout && (await makeLayout(client, "rebuild/layout", plan.layout));
  const layout = made ?? (plan.layout ? await readLayout(client, cached.handle) : kept);
  const filesystem = plan.filesystemOf ? await writeFilesystem(client, plan.filesystemOf, true) : live.filesystem;
  if (made) metrics.rebuilt("FilesystemLayout");
  if (plan.filesystemOf) metrics.rebuilt("Filesystem");
  const rebuilt = [...(made ? ["FilesystemLayout"] : []), ...(plan.filesystemOf ? ["Filesystem"] : [])];
  if (rebuilt.length > 0 && filesystem !== undefined)
    events.record(
      filesystem,
      "Normal",
      "Rebuilt",
      `${rebuilt.join(" and ")} of volume ${cached.handle} had been deleted, and was made again from PersistentVolume ${live.persistentVolume?.metadata.name}`,
    );
  return { facts: { ...live, layout, filesystem }, missing: plan.missing };
}

async function restore(reconciling: VolumeReconciling, handle: string): Promise<string[] | UnsafeHomeError> {
  try {
    return await restoreClaims(reconciling, handle);
  } catch (error) {
    if (error instanceof UnsafeHomeError) return error;
    throw error;
  }
}

/** Returns how long it may be left untold, where it is not told yet. */
async function reportStatus(
  { client, clock }: VolumeReconciling,
  facts: Parameters<typeof decideStatus>[0],
): Promise<number | undefined> {
  const status = decideStatus(facts, clock.nowMs());
  if (shows(facts.filesystem, status)) return undefined;
  const untoldMs = untoldForMs(facts.filesystem, facts.layout, status, clock.nowMs());
  if (untoldMs !== undefined) return untoldMs;
  await reportFilesystem(client, "report-status/filesystem", facts.filesystem, (filesystem) =>
    decideStatus({ ...facts, filesystem }, clock.nowMs()),
  );
  return undefined;
}
