// Makes one volume consistent: gather, decide, apply, report. A layout that is there is written at most twice. The first write is the intent,
// target and members, before anything is made for them: no volume exists that no layout names. The second one says what has come of it,
// and orders a spare: a node learns of a member once that is retained and attached, and a member leaves the layout once it is released (R6
// in docs/architecture/span.md). The status is one write.
import type { Filesystem } from "../../contracts/kinds/filesystem.ts";
import type { FilesystemLayout } from "../../contracts/kinds/filesystem-layout.ts";
import type { EventRecorder } from "../../platform/kube/events/events.ts";
import type { Outcome } from "../../platform/kube/queue/work-queue.ts";
import { AGAIN_AFTER_MS } from "../../platform/process/async/back-off.ts";
import type { Logger } from "../../platform/process/log.ts";
import { type Carried, carryTarget, type TargetCarrying } from "../apply/carry-target.ts";
import { type Rebuilding, rebuildVolume } from "../apply/rebuild-volume.ts";
import { departureMessage, type MemberReconciling, reconcileMembers } from "../apply/reconcile-members.ts";
import type { TargetRefusal } from "../decide/decide-layout-write.ts";
import type { MemberReport } from "../decide/decide-status.ts";
import { isRemoving } from "../decide/layout-facts.ts";
import { newlyRefused, refusalMessage } from "../decide/members/decide-member-state.ts";
import { type ClassFailure, classFailure } from "../decide/members/member-growth.ts";
import { rulesOfRecords } from "../decide/members/member-rules.ts";
import { gatherFacts, type VolumeFacts } from "../gather/gather-volume.ts";
import { onClassGrowthChange, type VolumeCaches } from "../gather/volume-caches.ts";
import { createReconcileQueue, type LedQueue } from "../led-queue.ts";
import { reconcileLogicalVolume } from "../lvm/make-logical-volume.ts";
import { reportVolume, type VolumeReport, type VolumeReporting } from "../report/report-filesystem.ts";

/** What the phases work with. */
export interface VolumePorts extends Rebuilding, TargetCarrying, MemberReconciling, VolumeReporting {
  readonly caches: VolumeCaches;
  readonly consolidations: TargetCarrying["consolidations"] & VolumeReporting["consolidations"];
}

/** What a reconcile does with a volume, in this order. */
export interface VolumePhases {
  gather(handle: string): VolumeFacts;
  /** What was lost is recreated. */
  rebuild(cached: VolumeFacts): ReturnType<typeof rebuildVolume>;
  /** Says what nodes have refused since. */
  sayRefused(facts: VolumeFacts): void;
  carryTarget(facts: VolumeFacts): Promise<Carried>;
  /** What is remembered of the members' class, where that makes a difference to the volume. */
  classFailure(layout: FilesystemLayout): ClassFailure | undefined;
  /** What the volume lies on is made what the layout says; of a span it returns what there is to say of its members. */
  reconcileBackend(
    layout: FilesystemLayout,
    filesystem: Filesystem | undefined,
    noGrowth: ClassFailure | undefined,
  ): Promise<MemberReport | undefined>;
  /** Returns how long the status may stay unwritten, in milliseconds, where it is not written yet. */
  report(report: VolumeReport): Promise<number | undefined>;
  nowMs(): number;
}

export function createVolumePhases(ports: VolumePorts): VolumePhases {
  return {
    gather: (handle) => gatherFacts(ports.caches, ports.ownWrites, handle),
    rebuild: (cached) => rebuildVolume(ports, cached),
    sayRefused: (facts) => sayRefused(ports.events, facts),
    carryTarget: (facts) => carryTarget(ports, facts),
    classFailure: (layout) => failureOfClass(ports.caches, layout, ports.clock.nowMs()),
    reconcileBackend: (layout, filesystem, noGrowth) => reconcileBackend(ports, layout, filesystem, noGrowth),
    report: (report) => reportVolume(ports, report),
    nowMs: () => ports.clock.nowMs(),
  };
}

export async function reconcileVolume(phases: VolumePhases, handle: string): Promise<Outcome> {
  const cached = phases.gather(handle);
  // An ordinary claim is not a volume of ours: src/operator/claim/ reconciles it.
  if (cached.layout?.spec.backend === "claim") return "done";
  // What was lost is recreated before anything else is decided on it.
  const { facts, missing, unsafe } = await phases.rebuild(cached);
  const { filesystem } = facts;
  if (facts.layout !== undefined && isRemoving(facts.layout)) return "done";
  phases.sayRefused(facts);

  // The target goes first, since a filling disk waits for it.
  const { layout, refusal } = await phases.carryTarget(facts);
  const noGrowth = layout && phases.classFailure(layout);
  const members = layout === undefined ? unsafe : await phases.reconcileBackend(layout, filesystem, noGrowth);

  const outcome = noLaterThan(noGrowth, outcomeOf(members, refusal), phases.nowMs());
  const isUnknown = layout === undefined && missing.length === 0 && unsafe === undefined;
  if (filesystem === undefined || isUnknown) return outcome;
  const silentMs = await phases.report({ handle, filesystem, layout, missing, refusal, members, noGrowth });
  return silentMs === undefined ? outcome : { againAfterMs: silentMs };
}

/** Once, by what the layout does not say yet. */
function sayRefused(events: EventRecorder, { layout, filesystem }: VolumeFacts): void {
  if (layout === undefined) return;
  for (const member of newlyRefused(layout))
    events.record(filesystem ?? layout, "Warning", "SignatureFound", refusalMessage([member]));
}

function failureOfClass(
  { layouts }: Pick<VolumeCaches, "layouts">,
  layout: FilesystemLayout,
  nowMs: number,
): ClassFailure | undefined {
  const rules = layout.spec.backend === "span" ? rulesOfRecords(layout.metadata.annotations) : undefined;
  if (rules === undefined || rules.strategy === "AddMember") return undefined;
  // The layout that was just written may not be in the cache yet.
  return classFailure([layout, ...layouts.store.list()], rules.className, nowMs);
}

async function reconcileBackend(
  ports: VolumePorts,
  layout: FilesystemLayout,
  filesystem: Filesystem | undefined,
  noGrowth: ClassFailure | undefined,
): Promise<MemberReport | undefined> {
  const { events } = ports;
  const { backend } = layout.spec;
  if (backend === "lvm" && (await reconcileLogicalVolume(ports, layout))) {
    ports.metrics.rebuilt("LogicalVolume");
    const message = `Rebuilt the deleted LogicalVolume ${layout.metadata.name} from the FilesystemLayout`;
    events.record(filesystem ?? layout, "Normal", "Rebuilt", message);
  }
  if (backend !== "span") return undefined;
  const { left, ...report } = await reconcileMembers(ports, layout, noGrowth);
  for (const member of left) events.record(filesystem ?? layout, "Normal", "MemberLeft", departureMessage(member));
  return report;
}

function outcomeOf(members: MemberReport | undefined, refusal: TargetRefusal | undefined): Outcome {
  if (members === undefined) return "done";
  if (refusal?.reason === "QuotaExceeded") return { againAfterMs: AGAIN_AFTER_MS.elsewhere };
  if (refusal?.reason === "WaitingForMember") return { againAfterMs: AGAIN_AFTER_MS.unwatched };
  if (members.problem !== undefined || members.spare !== undefined) return { againAfterMs: AGAIN_AFTER_MS.elsewhere };
  return members.waiting.length > 0 ? { againAfterMs: AGAIN_AFTER_MS.unwatched } : "done";
}

/** What is remembered is said until it is forgotten. */
function noLaterThan(noGrowth: ClassFailure | undefined, outcome: Outcome, nowMs: number): Outcome {
  if (noGrowth === undefined) return outcome;
  const againAfterMs = Math.max(1, noGrowth.untilMs - nowMs);
  return outcome !== "done" && outcome.againAfterMs < againAfterMs ? outcome : { againAfterMs };
}

const CONCURRENCY = 16;

/** While this replica leads: every volume once when leadership begins, then each one that changes. */
export function createVolumeLoop(ports: VolumePorts, log: Logger): LedQueue {
  const { caches, metrics } = ports;
  const phases = createVolumePhases(ports);
  const run = (handle: string): Promise<Outcome> => reconcileVolume(phases, handle);
  const queue = createReconcileQueue(caches, { name: "volumes", concurrency: CONCURRENCY, run }, metrics, log);
  caches.onChange(queue.add);
  caches.onNodeLossChange(queue.add);
  onClassGrowthChange(caches.layouts, ports.clock, queue.add);
  return queue;
}
