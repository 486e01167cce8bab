// What Filesystem and layout say of merging a filesystem's members: that the operator wants it for a pod, or that one was decided and is
// not over. One that ended before its last step is wanted still, whoever waits: until then the filesystem is larger than it was. Pure.
import { CONSOLIDATION_LIMIT_MS } from "../../api/consolidation.ts";
import { isStepBefore, stepBefore } from "../../api/decision-time.ts";
import { isEmergencySince } from "../../api/emergency-since.ts";
import type { Filesystem, WantedTarget } from "../../api/filesystem.ts";
import type { FilesystemLayout } from "../../api/filesystem-layout.ts";
import { highestEpoch } from "../../api/highest-epoch.ts";
import { formatBytes, parseQuantity, readQuantity } from "../../units/quantity.ts";
import type { ConsolidationFacts } from "../facts/facts.ts";

export function consolidationFacts(
  filesystem: Filesystem,
  layout: FilesystemLayout,
  sizeBytes: number,
  nowMs: number,
): ConsolidationFacts | undefined {
  if (layout.spec.backend !== "span") return undefined;
  return unfinished(filesystem.spec.target, layout, sizeBytes, nowMs) ?? wantedByPod(filesystem, sizeBytes);
}

function wantedByPod({ status }: Filesystem, sizeBytes: number): ConsolidationFacts | undefined {
  const need = status?.consolidation;
  const growthBytes = readQuantity(need?.growth);
  if (need === undefined || growthBytes === undefined) return undefined;
  const { members, message, obstacle } = need;
  return { members, growthBytes, sizeBytes, because: message, obstacle, underWay: false };
}

function unfinished(
  target: WantedTarget | undefined,
  layout: FilesystemLayout,
  presentBytes: number,
  nowMs: number,
): ConsolidationFacts | undefined {
  if (target?.members === undefined || isOvertaken(target, layout, presentBytes)) return undefined;
  const { members, decidedAt } = target;
  const wantedBytes = parseQuantity(target.size);
  // What a deposed leader decided is carried on by nobody once the present one has been heard of there, by its grant for one.
  const isDeposed = target.epoch < highestEpoch(layout);
  const isOver =
    isDeposed || hasEnded(target, layout) || hasFailedFirst(target, layout) || isGivenUp(target, layout, presentBytes);
  const underWay = !isOver && Math.abs(nowMs - Date.parse(decidedAt)) < CONSOLIDATION_LIMIT_MS;
  if (!underWay && wantedBytes >= presentBytes) return undefined;
  const because =
    `merging its members into ${members}, decided at ${decidedAt}, is not over: it has ${formatBytes(presentBytes)}, and is to have ` +
    formatBytes(wantedBytes);
  return { members, growthBytes: 0, sizeBytes: wantedBytes, because, underWay };
}

/** Carried out, given up, or with nothing left to do. */
function hasEnded({ decidedAt }: WantedTarget, { spec, status }: FilesystemLayout): boolean {
  const isCarried = spec.target?.decidedAt === decidedAt;
  return status?.lastOperation?.decidedAt === decidedAt || (isCarried && spec.target?.size === spec.target?.from);
}

/** The extend that makes room for what leaves. */
function hasFailedFirst({ decidedAt }: WantedTarget, { status }: FilesystemLayout): boolean {
  const last = status?.lastOperation;
  return last?.decidedAt !== undefined && isStepBefore(last.decidedAt, decidedAt) && last.outcome !== "Succeeded";
}

/**
 * The operator begins none that was decided on another size than the filesystem has: an extend that the former leader had decided, for one,
 * ended right after.
 */
function isGivenUp(
  { decidedAt, from }: WantedTarget,
  { spec, status }: FilesystemLayout,
  presentBytes: number,
): boolean {
  if (status?.operation || presentBytes === parseQuantity(from)) return false;
  const steps = [decidedAt, stepBefore(decidedAt)];
  const done = [spec.target?.decidedAt, status?.lastOperation?.decidedAt];
  const isBegun = done.some((at) => at !== undefined && steps.includes(at));
  return !isBegun && spec.members?.every(({ replaces }) => replaces?.decidedAt !== decidedAt) === true;
}

/**
 * A raised request or an emergency has changed the size since: what is there now is what it is to have. Of the size that it was decided on
 * nothing has, whatever the clock of its node was in an emergency before.
 */
function isOvertaken({ decidedAt, from }: WantedTarget, layout: FilesystemLayout, presentBytes: number): boolean {
  const carriedMs = Date.parse(layout.spec.target?.decidedAt ?? "");
  const isEmergency = isEmergencySince(layout, decidedAt) && presentBytes !== parseQuantity(from);
  return isEmergency || carriedMs > Date.parse(decidedAt);
}
