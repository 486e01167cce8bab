// What is known of a class' growing of members. Some drivers agree to expand a block volume and leave its device as it is. Where that
// has happened lately members are added instead; after a time the class is tried again, at once where a growth works. Pure. The
// memory is in annotations on the layouts of the class, so that it outlives the operator, and one volume's failure spares the others'. All
// of its times are the operator's: of a node's it is only asked whether they are the same.
import type { FilesystemLayout, MemberSpec } from "../../api/filesystem-layout.ts";
import {
  GROWTH_ASKED_ANNOTATION,
  GROWTH_FAILED_ANNOTATION,
  GROWTH_SETTLED_ANNOTATION,
  GROWTH_WORKED_ANNOTATION,
} from "../../api/names.ts";
import { parseQuantity } from "../../units/quantity.ts";
import { isPart } from "../volume/layout-facts.ts";
import type { GrowthRecord } from "../volume/layout-fields.ts";
import { rulesOfRecords } from "./member-rules.ts";

/** Before a class is tried again. */
export const GROWTH_MEMORY_MS = 3_600_000;

/** A growth that was waited for to its limit. */
export interface VainGrowth {
  /** The members as they are: whose device did not follow has the size of its device. */
  readonly members: MemberSpec[];
}

/** Undefined: the last operation did not fail for the device of a member that was to grow, or that is settled already. */
export function vainGrowth({ metadata, spec, status }: FilesystemLayout): VainGrowth | undefined {
  const last = status?.lastOperation;
  const hasFailed = last?.kind === "Extend" && last.outcome === "Failed" && last.reason === "WaitingForMember";
  if (last === undefined || !hasFailed || status?.operation || !isOfTarget(spec.target, last)) return undefined;
  // Where nothing but growing is left, the same target grows it again: that is another attempt, which has not failed yet.
  if (metadata.annotations?.[GROWTH_SETTLED_ANNOTATION] === last.endedAt) return undefined;
  const sizes = new Map(status?.members?.filter(({ state }) => state === "Present").map((one) => [one.name, one.size]));
  const members = (spec.members ?? []).map((member): MemberSpec => {
    const size = sizes.get(member.name);
    return size !== undefined && isBehind(member, size) ? { ...member, size } : member;
  });
  return members.every((member, index) => member === spec.members?.[index]) ? undefined : { members };
}

type LastOperation = NonNullable<NonNullable<FilesystemLayout["status"]>["lastOperation"]>;

/**
 * One of another target says nothing of the growth that this one asked for. An emergency is of none: what ended before a growth was asked
 * for is settled by then.
 */
function isOfTarget(target: FilesystemLayout["spec"]["target"], { decidedAt, emergency }: LastOperation): boolean {
  return emergency === true || (decidedAt !== undefined && decidedAt === target?.decidedAt);
}

/** What is remembered with members that a write asks for: that a growth was in vain before it, and that it has one tried again. */
export function growthRecord(
  layout: FilesystemLayout,
  members: readonly MemberSpec[],
  { vain, growthFailed }: { readonly vain: VainGrowth | undefined; readonly growthFailed: boolean },
  nowMs: number,
): GrowthRecord {
  const before = new Map((vain?.members ?? layout.spec.members ?? []).map((one) => [one.name, one]));
  const growing = members.find((one) => isLarger(one, before.get(one.name)));
  const now = new Date(nowMs).toISOString();
  const endedAt = layout.status?.lastOperation?.endedAt;
  const isSettled = endedAt !== undefined && (vain !== undefined || growing !== undefined);
  return {
    ...(vain === undefined ? {} : { failedAt: now }),
    ...(isSettled ? { settled: endedAt } : {}),
    ...(growing !== undefined && growthFailed ? { asked: `${now} ${growing.name} ${growing.size}` } : {}),
  };
}

function isLarger({ size }: MemberSpec, before: MemberSpec | undefined): boolean {
  return size !== undefined && before?.size !== undefined && parseQuantity(size) > parseQuantity(before.size);
}

/** Its driver says that the volume has the size that was asked for, and the device has not. */
function isBehind(member: MemberSpec, deviceSize: string): boolean {
  const { size, source } = member;
  if (size === undefined || !isPart(member)) return false;
  const wantedBytes = parseQuantity(size);
  return parseQuantity(source.claim?.capacity ?? "0") >= wantedBytes && parseQuantity(deviceSize) < wantedBytes;
}

/** A class that does not grow members at present. */
export interface ClassFailure {
  readonly className: string;
  /** Unix milliseconds. */
  readonly failedAtMs: number;
  /** When it is tried again. */
  readonly untilMs: number;
}

/** By all layouts of the class; those of other classes are left out. Undefined: nothing speaks against growing. */
export function classFailure(
  layouts: readonly FilesystemLayout[],
  className: string,
  nowMs: number,
): ClassFailure | undefined {
  const ofClass = layouts.filter(({ metadata }) => rulesOfRecords(metadata.annotations)?.className === className);
  const failedAtMs = latest(ofClass, GROWTH_FAILED_ANNOTATION, nowMs);
  const untilMs = Math.min(failedAtMs, nowMs) + GROWTH_MEMORY_MS;
  const holds = failedAtMs > latest(ofClass, GROWTH_WORKED_ANNOTATION, nowMs) && nowMs < untilMs;
  return holds ? { className, failedAtMs, untilMs } : undefined;
}

/** A time that cannot be read is none, and so is one so far ahead that another replica's clock was wrong. */
function latest(layouts: readonly FilesystemLayout[], annotation: string, nowMs: number): number {
  const times = layouts.map(({ metadata }) => Date.parse(metadata.annotations?.[annotation] ?? ""));
  return Math.max(Number.NEGATIVE_INFINITY, ...times.filter((time) => time < nowMs + GROWTH_MEMORY_MS));
}

/**
 * Whether the layout shows that a member of the class grows again: one that was asked to after the failure has a device of that size. The
 * driver alone is no witness, since it agreed before. False where the layout says so already.
 */
export function hasGrownSince({ metadata, status }: FilesystemLayout, { failedAtMs }: ClassFailure): boolean {
  const [askedAt = "", name, size] = (metadata.annotations?.[GROWTH_ASKED_ANNOTATION] ?? "").split(" ");
  const askedAtMs = Date.parse(askedAt);
  // An annotation that is no time is no news either.
  if (!(askedAtMs >= failedAtMs) || size === undefined) return false;
  const device = status?.members?.find((one) => one.name === name && one.state === "Present");
  const workedAtMs = Date.parse(metadata.annotations?.[GROWTH_WORKED_ANNOTATION] ?? "");
  return device !== undefined && parseQuantity(device.size) >= parseQuantity(size) && !(workedAtMs >= askedAtMs);
}
