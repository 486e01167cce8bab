// What the records say that one filesystem has of its namespace's budget, and what is under way on it: reads Filesystem, FilesystemLayout
// and, of other drivers' claims, the claim; it remembers nothing.

import { budgetedBytes } from "../../contracts/formulas/filesystem-size.ts";
import type { Filesystem, SizeTarget } from "../../contracts/kinds/filesystem.ts";
import type { FilesystemLayout } from "../../contracts/kinds/filesystem-layout.ts";
import type { PersistentVolumeClaim } from "../../contracts/kubernetes/resources.ts";
import { claimResizeOf } from "../../contracts/ordinary-claim.ts";
import { parseQuantity } from "../../contracts/quantities/quantity.ts";

/** Up to this size the node may grow the filesystem by itself. */
export interface HeldGrant {
  readonly sizeBytes: number;
  readonly epoch: number;
}

/** Bytes: the reported size, or the largest size that is still to be carried out. A shrink frees nothing until it is reported. */
export function takenBytes(
  layout: FilesystemLayout,
  filesystem: Filesystem | undefined,
  claim: PersistentVolumeClaim | undefined,
): number {
  const reportedBytes = budgetedBytes(layout);
  if (isRemoving(layout)) return reportedBytes;
  const { operation, lastOperation } = layout.status ?? {};
  const { target } = layout.spec;
  const wanted = isOf(filesystem, layout) ? filesystem?.spec.target : undefined;
  if (layout.spec.backend === "claim")
    return Math.max(
      reportedBytes,
      askedBytes(claim, layout),
      isNewer(wanted, [target]) ? readableBytes(wanted?.size) : 0,
    );
  return Math.max(
    reportedBytes,
    operation?.kind === "Extend" ? readableBytes(operation.to) : 0,
    // A target is carried out at most once, and nothing older than it afterwards.
    isNewer(target, [lastOperation]) ? readableBytes(target?.size) : 0,
    isNewer(wanted, [target, operation, lastOperation]) ? readableBytes(wanted?.size) : 0,
  );
}

/** What its claim requests, which a ResourceQuota counts; 0: its claim is gone. */
export function requestedBytes(
  { spec: { claimRef } }: FilesystemLayout,
  claim: PersistentVolumeClaim | undefined,
): number {
  if (claim === undefined || claim.metadata.uid !== claimRef?.uid) return 0;
  return readableBytes(claim.spec.resources?.requests?.["storage"]);
}

/** The grant that stands on the layout. */
export function standingGrant(layout: FilesystemLayout): HeldGrant | undefined {
  const { emergency } = layout.spec;
  if (emergency === undefined || isRemoving(layout)) return undefined;
  // An unreadable expiry has passed: the agent reads it so, too. A readable one says nothing here: the node counts from its reading.
  if (Number.isNaN(Date.parse(emergency.expiry))) return undefined;
  return { sizeBytes: readableBytes(emergency.size), epoch: emergency.epoch };
}

/** A change of a size that is under way. */
export interface UnderWay {
  /** When it began, or was decided, Unix milliseconds; NaN: the records do not say. */
  readonly sinceMs: number;
  /** It is carried out; else it only stands, and may never be. */
  readonly isRunning: boolean;
  /** Which change it is, and how far it has come: another text is news of it, and nothing else that is written is. */
  readonly progress: string;
}

/** Undefined: no change is. One that waits for an unmount has not begun, and one that asks for the present size changes nothing. */
export function changeUnderWay(
  layout: FilesystemLayout,
  filesystem: Filesystem | undefined,
  claim: PersistentVolumeClaim | undefined,
): UnderWay | undefined {
  if (isRemoving(layout)) return undefined;
  const { operation, lastOperation, endedDecidedAt } = layout.status ?? {};
  const { target } = layout.spec;
  const wanted = isOf(filesystem, layout) ? filesystem?.spec.target : undefined;
  if (operation)
    return { sinceMs: Date.parse(operation.startedAt), isRunning: true, progress: JSON.stringify(operation) };
  if (layout.spec.backend === "claim")
    return resizeUnderWay(layout, claim) ?? (isNewer(wanted, [target]) ? standingSince(wanted, layout) : undefined);
  const ended: readonly Dated[] = [lastOperation, { decidedAt: endedDecidedAt }];
  const newest = isNewer(wanted, [target]) ? wanted : target;
  return isNewer(newest, ended) ? standingSince(newest, layout) : undefined;
}

// What its owner has asked for, its own driver does: that takes no turn of others. Nor does what waits for a pod, as long as that takes.
function resizeUnderWay(
  { spec: { claimRef, target, nodeName } }: FilesystemLayout,
  claim: PersistentVolumeClaim | undefined,
): UnderWay | undefined {
  const resize = claim?.metadata.uid === claimRef?.uid ? claim && claimResizeOf(claim) : undefined;
  if (target === undefined || resize === undefined || readableBytes(target.size) <= resize.capacityBytes)
    return undefined;
  const { stage } = resize;
  if (stage !== "OnController" && (stage !== "OnNode" || nodeName === undefined)) return undefined;
  return { sinceMs: Date.parse(target.decidedAt), isRunning: true, progress: `${target.decidedAt} ${stage}` };
}

function standingSince(target: SizeTarget | undefined, layout: FilesystemLayout): UnderWay | undefined {
  if (target === undefined || target.notAfter !== undefined) return undefined;
  const [fromBytes, toBytes] = [readableBytes(target.from), readableBytes(target.size)];
  if (toBytes === fromBytes || (toBytes > fromBytes && budgetedBytes(layout) >= toBytes)) return undefined;
  return { sinceMs: Date.parse(target.decidedAt), isRunning: false, progress: target.decidedAt };
}

/** What carries no time, or none that can be read, is older than everything. */
type Dated = { readonly decidedAt?: string | undefined } | null | undefined;

function isNewer(target: SizeTarget | undefined, others: readonly Dated[]): boolean {
  const decidedAtMs = Date.parse(target?.decidedAt ?? "");
  return target !== undefined && !others.some((other) => decidedAtMs <= Date.parse(other?.decidedAt ?? ""));
}

// What has become of the layout's target: nothing, or the claim's request, which its driver may carry out at any time.
function askedBytes(claim: PersistentVolumeClaim | undefined, { spec }: FilesystemLayout): number {
  if (claim === undefined || claim.metadata.uid !== spec.claimRef?.uid) return 0;
  const resize = claimResizeOf(claim);
  return resize === undefined ? 0 : Math.max(resize.requestBytes, resize.capacityBytes);
}

// A Filesystem of a recreated claim is another volume's.
function isOf(filesystem: Filesystem | undefined, { spec }: FilesystemLayout): boolean {
  const uid = filesystem?.spec.claimRef?.uid;
  return uid === undefined || uid === spec.claimRef?.uid;
}

function isRemoving({ spec: { members } }: FilesystemLayout): boolean {
  return members !== undefined && members.length > 0 && members.every(({ state }) => state === "Removed");
}

// What cannot be read is never carried out.
function readableBytes(size: string | undefined): number {
  try {
    return size === undefined ? 0 : parseQuantity(size);
  } catch {
    return 0;
  }
}
