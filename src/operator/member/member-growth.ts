// What is known of a class' growing of members. Some drivers agree to expand a block volume and leave its device as it is. Where that
// has happened lately members are added instead; after a time the class is tried again, at once where a growth works. Pure. The
// memory is an annotation on the layouts of the class, so that it outlives the operator, and one volume's failure spares the others'.
import type { FilesystemLayout, MemberSpec } from "../../api/filesystem-layout.ts";
import { GROWTH_FAILED_ANNOTATION, GROWTH_WORKED_ANNOTATION } from "../../api/names.ts";
import { parseQuantity } from "../../units/quantity.ts";
import { isPart } from "../volume/layout-facts.ts";
import { rulesOfRecords } from "./member-rules.ts";

/** Before a class is tried again. */
export const GROWTH_MEMORY_MS = 3_600_000;

/** A growth that was waited for to its limit. */
export interface VainGrowth {
  /** RFC 3339: when its node gave up. */
  readonly failedAt: string;
  /** The members as they are: whose device did not follow has the size of its device. */
  readonly members: MemberSpec[];
}

/** Undefined: the last operation did not fail for the device of a member that was to grow, or that is settled already. */
export function vainGrowth({ metadata, spec, status }: FilesystemLayout): VainGrowth | undefined {
  const last = status?.lastOperation;
  const hasFailed = last?.kind === "Extend" && last.outcome === "Failed" && last.reason === "WaitingForMember";
  if (last === undefined || !hasFailed || status?.operation || !isOfTarget(spec.target, last)) return undefined;
  // Where nothing but growing is left, the same target grows it again: that is another attempt, which has not failed yet.
  if (metadata.annotations?.[GROWTH_FAILED_ANNOTATION] === last.endedAt) return undefined;
  const sizes = new Map(status?.members?.filter(({ state }) => state === "Present").map((one) => [one.name, one.size]));
  const members = (spec.members ?? []).map((member): MemberSpec => {
    const size = sizes.get(member.name);
    return size !== undefined && isBehind(member, size) ? { ...member, size } : member;
  });
  return members.every((member, index) => member === spec.members?.[index])
    ? undefined
    : { failedAt: last.endedAt, members };
}

type LastOperation = NonNullable<NonNullable<FilesystemLayout["status"]>["lastOperation"]>;

/** One that ended before the present target was written says nothing of the growth that this one asked for. */
function isOfTarget(
  target: FilesystemLayout["spec"]["target"],
  { decidedAt, emergency, startedAt }: LastOperation,
): boolean {
  if (emergency === true) return target === undefined || Date.parse(startedAt) > Date.parse(target.decidedAt);
  return decidedAt !== undefined && decidedAt === target?.decidedAt;
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
  // A time that is ahead of this clock would be remembered for longer than it may.
  const failedAtMs = Math.min(latest(ofClass, GROWTH_FAILED_ANNOTATION), nowMs);
  const untilMs = failedAtMs + GROWTH_MEMORY_MS;
  const holds = failedAtMs > latest(ofClass, GROWTH_WORKED_ANNOTATION) && nowMs < untilMs;
  return holds ? { className, failedAtMs, untilMs } : undefined;
}

/** A time that cannot be read is none. */
function latest(layouts: readonly FilesystemLayout[], annotation: string): number {
  const times = layouts.map(({ metadata }) => Date.parse(metadata.annotations?.[annotation] ?? ""));
  return Math.max(Number.NEGATIVE_INFINITY, ...times.filter((time) => !Number.isNaN(time)));
}
