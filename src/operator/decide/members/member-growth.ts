// What is known of a class' growing of members. Some drivers agree to expand a block volume and leave its device as it is. Where that
// has happened lately members are added instead; after a time the class is tried again, at once where a growth works. Pure. The
// memory is in annotations on the layouts of the class, so that it outlives the operator, and one volume's failure spares the others'. All
// of its times are the operator's: of a node's it is only asked whether they are the same.
import type { FilesystemLayout, MemberSpec } from "../../../contracts/kinds/filesystem-layout.ts";
import {
  GROWTH_ASKED_ANNOTATION,
  GROWTH_FAILED_ANNOTATION,
  GROWTH_SETTLED_ANNOTATION,
  GROWTH_WORKED_ANNOTATION,
  MEMBER_ROUNDED_ANNOTATION,
} from "../../../contracts/names.ts";
import { formatBytes, formatQuantity, parseQuantity, readQuantity } from "../../../contracts/quantities/quantity.ts";
import type { GrowthRecord } from "../../volumes/layout-fields.ts";
import { isPart } from "../layout-facts.ts";
import { rulesOfRecords } from "./member-rules.ts";

/** Before a class is tried again. */
export const GROWTH_MEMORY_MS = 3_600_000;
/** Before a merge that has no other way grows a member again. It doubles with each failure, up to the memory itself. */
export const GROWTH_PAUSE_MS = 120_000;

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
  if (isSettled(metadata.annotations?.[GROWTH_SETTLED_ANNOTATION], last)) return undefined;
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

/**
 * The text for what says nothing of the members' growth from now on: the last end, and what runs while members are asked to grow, which
 * never tried that.
 */
function settledText({ status }: FilesystemLayout): string | undefined {
  const { operation, lastOperation } = status ?? {};
  return operation ? `${lastOperation?.endedAt ?? "none"} ${operation.startedAt}` : lastOperation?.endedAt;
}

/** Its node's times: whether they are the same is all that is asked. */
function isSettled(text: string | undefined, { startedAt, endedAt }: LastOperation): boolean {
  const [settledEnd, settledStart] = (text ?? "").split(" ");
  return settledEnd === endedAt || settledStart === startedAt;
}

/** What is known of a class' growth. */
export interface GrowthKnown {
  /** Lately, in a volume of any team. */
  readonly growthFailed: boolean;
  /** How often in a row; absent: never, as far as is remembered. */
  readonly growthFailures?: number | undefined;
}

/**
 * What is remembered with members that a write asks for: that a growth was in vain before it, and that it has one tried again.
 * `atMs`: its growthTime.
 */
export function growthRecord(
  layout: FilesystemLayout,
  members: readonly MemberSpec[],
  { vain, growthFailed, growthFailures = 0 }: GrowthKnown & { readonly vain: VainGrowth | undefined },
  atMs: number,
): GrowthRecord {
  const before = new Map((vain?.members ?? layout.spec.members ?? []).map((one) => [one.name, one]));
  const growing = members.find((one) => isLarger(one, before.get(one.name)));
  const at = new Date(atMs).toISOString();
  const settled = vain !== undefined || growing !== undefined ? settledText(layout) : undefined;
  return {
    ...(vain === undefined ? {} : { failedAt: growthFailures === 0 ? at : `${at} ${growthFailures + 1}` }),
    ...(settled === undefined ? {} : { settled }),
    ...(growing !== undefined && growthFailed ? { asked: `${at} ${growing.name} ${growing.size}` } : {}),
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
  /** In a row, each while the one before was remembered. */
  readonly failures: number;
}

/** By all layouts of the class; those of other classes are left out. Undefined: nothing speaks against growing. */
export function classFailure(
  layouts: readonly FilesystemLayout[],
  className: string,
  nowMs: number,
): ClassFailure | undefined {
  const ofClass = layoutsOfClass(layouts, className);
  const failedAtMs = latest(ofClass, GROWTH_FAILED_ANNOTATION, nowMs);
  const untilMs = Math.min(failedAtMs, nowMs) + GROWTH_MEMORY_MS;
  const holds = failedAtMs > latest(ofClass, GROWTH_WORKED_ANNOTATION, nowMs) && nowMs < untilMs;
  return holds ? { className, failedAtMs, untilMs, failures: failuresAt(ofClass, failedAtMs, nowMs) } : undefined;
}

/** An older operator wrote no number. */
function failuresAt(layouts: readonly FilesystemLayout[], failedAtMs: number, nowMs: number): number {
  const counts = layouts
    .filter((layout) => rememberedMs(layout, GROWTH_FAILED_ANNOTATION, nowMs) === failedAtMs)
    .map(({ metadata }) => Number((metadata.annotations?.[GROWTH_FAILED_ANNOTATION] ?? "").split(" ")[1]));
  return Math.max(1, ...counts.filter(Number.isSafeInteger));
}

/** From when on a merge that has no other way grows a member all the same: it may work by then. */
export function growsAgainAtMs({ failedAtMs, untilMs, failures }: ClassFailure): number {
  return Math.min(untilMs, failedAtMs + GROWTH_PAUSE_MS * 2 ** (failures - 1));
}

/**
 * The date of what is found or asked for next: after all that is remembered of the class, since the later one counts. The replica that
 * led before may have a clock that is ahead.
 */
export function growthTime(layouts: readonly FilesystemLayout[], className: string, nowMs: number): number {
  const ofClass = layoutsOfClass(layouts, className);
  const known = [GROWTH_FAILED_ANNOTATION, GROWTH_WORKED_ANNOTATION, GROWTH_ASKED_ANNOTATION];
  return Math.max(nowMs, ...known.map((annotation) => latest(ofClass, annotation, nowMs) + 1));
}

function layoutsOfClass(layouts: readonly FilesystemLayout[], className: string): readonly FilesystemLayout[] {
  return layouts.filter(({ metadata }) => rulesOfRecords(metadata.annotations)?.className === className);
}

function latest(layouts: readonly FilesystemLayout[], annotation: string, nowMs: number): number {
  return Math.max(Number.NEGATIVE_INFINITY, ...layouts.map((layout) => rememberedMs(layout, annotation, nowMs)));
}

/** A time that cannot be read counts as absent, and so does one so far ahead that another replica's clock was wrong. */
function rememberedMs({ metadata }: FilesystemLayout, annotation: string, nowMs: number): number {
  const [text = ""] = (metadata.annotations?.[annotation] ?? "").split(" ");
  const timeMs = Date.parse(text);
  return timeMs < nowMs + GROWTH_MEMORY_MS ? timeMs : Number.NEGATIVE_INFINITY;
}

/**
 * What the layout is to say once it shows that a member of the class grows again. It shows that where a member that was
 * asked to grow after the failure has a device of that size. The driver's answer alone proves nothing, since the driver
 * agreed before. Undefined: the layout shows no such thing, or says so already.
 */
export function growthNews(
  layout: FilesystemLayout,
  { failedAtMs }: Pick<ClassFailure, "failedAtMs">,
  nowMs: number,
): GrowthRecord | undefined {
  const [, name, size] = (layout.metadata.annotations?.[GROWTH_ASKED_ANNOTATION] ?? "").split(" ");
  const askedAtMs = rememberedMs(layout, GROWTH_ASKED_ANNOTATION, nowMs);
  const isSaid = rememberedMs(layout, GROWTH_WORKED_ANNOTATION, nowMs) >= askedAtMs;
  if (askedAtMs < failedAtMs || isSaid || size === undefined) return undefined;
  const device = layout.status?.members?.find((one) => one.name === name && one.state === "Present");
  if (device === undefined || parseQuantity(device.size) < parseQuantity(size)) return undefined;
  // Never before the request that it answers, which another replica may have dated: otherwise a write that changes
  // nothing would repeat without end.
  return { workedAt: new Date(Math.max(nowMs, askedAtMs)).toISOString() };
}

/**
 * How much larger than asked for a class' driver has made a member. One that is too large is of no use where a smaller member was wanted, and
 * would be ordered again and again: so it is remembered for a while, for the class.
 */
export interface Rounding {
  readonly askedBytes: number;
  readonly gotBytes: number;
}

/** The annotation's text. */
export function roundingText({ askedBytes, gotBytes }: Rounding, atMs: number): string {
  return `${new Date(atMs).toISOString()} ${formatQuantity(askedBytes)} ${formatQuantity(gotBytes)}`;
}

/** By all layouts of the class. What cannot be read says nothing. */
export function classRoundings(layouts: readonly FilesystemLayout[], className: string, nowMs: number): Rounding[] {
  return layoutsOfClass(layouts, className).flatMap((layout) => {
    const atMs = rememberedMs(layout, MEMBER_ROUNDED_ANNOTATION, nowMs);
    const [, asked, got] = (layout.metadata.annotations?.[MEMBER_ROUNDED_ANNOTATION] ?? "").split(" ");
    const [askedBytes, gotBytes] = [readQuantity(asked), readQuantity(got)];
    const isKnown = askedBytes !== undefined && gotBytes !== undefined && nowMs < atMs + GROWTH_MEMORY_MS;
    return isKnown ? [{ askedBytes, gotBytes }] : [];
  });
}

/** What the class makes at least where so much is asked for: no less than where less was. */
export function expectedBytes(roundings: readonly Rounding[], askedBytes: number): number {
  const known = roundings.filter((rounding) => rounding.askedBytes <= askedBytes);
  return Math.max(askedBytes, ...known.map(({ gotBytes }) => gotBytes));
}

/** For people. */
export function roundingMessage(className: string, { askedBytes, gotBytes }: Rounding): string {
  return `class ${className} has lately made members of ${formatBytes(gotBytes)} or more where ${formatBytes(askedBytes)} were asked for`;
}
