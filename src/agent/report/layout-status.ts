// What the agent says about a volume in FilesystemLayout.status: pure, from what it knows of it.

import type {
  FilesystemLayout,
  FilesystemLayoutStatus,
  LastOperation,
} from "../../contracts/kinds/filesystem-layout.ts";
import { MESSAGE_CHARACTERS, printable, withDetail } from "../../contracts/printable.ts";
import { formatBytes, formatQuantity, parseQuantity } from "../../contracts/quantities/quantity.ts";
import type { ConditionReason, HoldReason } from "../../contracts/reasons.ts";
import { type ConditionType, datedCondition, type Statement, statement } from "../../contracts/schema/condition.ts";
import { memberNameOf, pendingMembers } from "../gather/operation-facts.ts";
import { describeVolume } from "../member-drivers/span-member.ts";
import { type FoundMember, wholeGrains } from "../storage/storage.ts";
import type { LoopRecord, LvmRecord, NodeRecord } from "../volumes/node-records.ts";
import { type NodeVolumeState, volumeModeOf, volumeOf } from "../volumes/volume-state.ts";

export interface StatusFacts {
  readonly state: NodeVolumeState;
  readonly nodeName: string;
  readonly nowMs: number;
  /** As last seen: what it says keeps its time. */
  readonly live: FilesystemLayout;
}

/** Every field that the agent owns; what is absent here is taken back from the object. */
export function layoutStatus({ state, nodeName, nowMs, live }: StatusFacts): FilesystemLayoutStatus {
  const { record, running } = state;
  const members = memberStatuses(state, live);
  const shrinksUnmounted = state.shrinksUnmounted ?? live.status?.shrinksUnmounted;
  return {
    observedGeneration: live.metadata.generation,
    ...(volumeModeOf(record) === "Block" ? {} : { fsid: volumeOf(record).fsid }),
    nodeName,
    mounted: state.mounted !== undefined || state.held,
    epoch: record.epoch,
    ...(members.length === 0 ? {} : { members }),
    ...(shrinksUnmounted === true ? { shrinksUnmounted } : {}),
    ...immovableOf(state, live),
    ...refusedOf(state, live),
    ...(running === undefined ? {} : { operation: running.operation }),
    ...(record.lastOperation === undefined ? {} : { lastOperation: printableEnd(record.lastOperation) }),
    ...endedBefore(record),
    ...(record.lastTrim === undefined ? {} : { lastTrim: record.lastTrim }),
    conditions: conditionsOf(state, live).map((said) =>
      datedCondition(said, live.status?.conditions, live.metadata.generation, nowMs),
    ),
  };
}

/** What the status says already, from this agent or another node's, until this agent has checked the present mount. */
function immovableOf({ mounted }: NodeVolumeState, { status }: FilesystemLayout): { readonly immovable?: string } {
  const immovable = mounted?.moving === undefined ? status?.immovable : mounted.moving.immovable;
  return immovable === undefined ? {} : { immovable: printable(immovable) };
}

/** As above, for each member until its device was checked: an agent that has just started has checked no device. */
function refusedOf(
  { mounted }: NodeVolumeState,
  { spec, status }: FilesystemLayout,
): Pick<FilesystemLayoutStatus, "refused"> {
  const found = new Map(mounted?.members.map((member) => [member.name, member]));
  const said = new Map(status?.refused?.map((one) => [one.name, one.message]));
  const refused = (spec.members ?? []).flatMap(({ name }) => {
    const { state = "Leaving", why } = found.get(name) ?? {};
    const message = state === "Leaving" ? said.get(name) : state === "Refused" ? printable(why ?? "") : undefined;
    return message === undefined ? [] : [{ name, message }];
  });
  return refused.length === 0 ? {} : { refused };
}

/** Its message may hold what a command has said, with names that users gave. */
function printableEnd({ message, ...last }: LastOperation): LastOperation {
  return { ...last, ...(message === undefined ? {} : { message: printable(message) }) };
}

/**
 * The target that ended before an emergency. Where the last operation names it, it is left out: the definition that an API server still has
 * while this is rolled out knows no such field, and refuses the whole status.
 */
function endedBefore({
  endedDecidedAt,
  lastOperation,
}: NodeVolumeState["record"]): Pick<FilesystemLayoutStatus, "endedDecidedAt"> {
  return endedDecidedAt === undefined || endedDecidedAt === lastOperation?.decidedAt ? {} : { endedDecidedAt };
}

type Member = NonNullable<FilesystemLayoutStatus["members"]>[number];

function memberStatuses(state: NodeVolumeState, live: FilesystemLayout): Member[] {
  const { record } = state;
  if (record.backend === "span") return spanMembers(state, live);
  const member = onlyMember(record, state, live);
  return member === undefined ? [] : [member];
}

function onlyMember(
  { memberName: name, memberMade }: LoopRecord | LvmRecord,
  { phase, sizeBytes }: NodeVolumeState,
  live: FilesystemLayout,
): Member | undefined {
  const lastSize = lastSizeOf(name, live);
  if (phase === "Removed") return { name, size: lastSize, state: "Removed" };
  if (sizeBytes !== undefined) return { name, size: formatQuantity(sizeBytes), state: "Present" };
  return memberMade ? { name, size: lastSize, state: "Missing" } : undefined;
}

function lastSizeOf(name: string, live: FilesystemLayout): string {
  return live.status?.members?.find((member) => member.name === name)?.size ?? "0";
}

/** What was found in the mounted filesystem; while it is not mounted, what was said last, here or by another node's agent. */
function spanMembers({ mounted }: NodeVolumeState, live: FilesystemLayout): Member[] {
  const members = mounted?.members ?? [];
  const names = new Set(live.spec.members?.map(({ name }) => name));
  // A member that the spec no longer names was in the filesystem at the last check, on whichever node. The filesystem is not mounted
  // without that member.
  const before = (live.status?.members ?? []).filter(({ name, state }) => names.has(name) || state === "Present");
  if (members.length === 0) return before;
  const found = members.flatMap((member): Member[] => {
    const { name, state, sizeBytes } = member;
    if (state === "Leaving" || state === "Refused" || state === "Stranger") return [];
    const size = sizeBytes === undefined ? lastSizeOf(name, live) : formatQuantity(sizeBytes);
    const last = before.find((one) => one.name === name);
    const device = state === "Present" ? { ...deviceOf(member, last), ...allocatedOf(member, last) } : {};
    return [{ name, ...device, size, state }];
  });
  // There is no way back from Removed.
  const gone = before.filter(
    ({ name, state }) => state === "Removed" && !members.some((member) => member.name === name),
  );
  return [...found, ...gone];
}

/** What was said of a device stands while its member is in the filesystem: what is in its place later is refused by it, not said over it. */
function deviceOf({ devid, deviceUUID }: FoundMember, last: Member | undefined): Pick<Member, "devid" | "deviceUUID"> {
  if (last?.state === "Present" && last.devid !== undefined && last.deviceUUID !== undefined)
    return { devid: last.devid, deviceUUID: last.deviceUUID };
  return devid === undefined ? {} : { devid, ...(deviceUUID === undefined ? {} : { deviceUUID }) };
}

/** Chunks come and go all the time: less is not worth a write of the layout. */
const ALLOCATED_CHANGE_RATIO = 0.1;

/** That a member holds nothing, or does again, is said at once. */
function allocatedOf(member: FoundMember, last: Member | undefined): Pick<Member, "allocated"> {
  const { allocatedBytes, sizeBytes = 0 } = member;
  const said = last?.state === "Present" ? last.allocated : undefined;
  if (allocatedBytes === undefined) return {};
  const present = { allocated: formatQuantity(allocatedBytes) };
  if (said === undefined) return present;
  const saidBytes = parseQuantity(said);
  const isEmptied = (saidBytes === 0) !== (allocatedBytes === 0);
  const hasChanged = Math.abs(allocatedBytes - saidBytes) >= sizeBytes * ALLOCATED_CHANGE_RATIO;
  return isEmptied || hasChanged ? present : { allocated: said };
}

interface Because {
  readonly reason: ConditionReason | HoldReason;
  readonly message: string;
}

function conditionsOf(state: NodeVolumeState, live: FilesystemLayout): Statement[] {
  const stalled = stallOf(state, live);
  const pending = pendingOf(state);
  const fine = { reason: "Ready" as const, message: situation(state) };
  return [
    because("Ready", !blocks(state) && !isUnmade(state), blocks(state) ?? pendingUnmade(state) ?? fine),
    because("Reconciling", pending !== undefined, pending ?? spareless(state) ?? fine),
    because("Stalled", stalled !== undefined, stalled ?? fine),
  ];
}

function because(type: ConditionType, holds: boolean, { reason, message }: Because): Statement {
  return statement(type, holds, reason, message);
}

/** What keeps the filesystem from being used. */
function blocks(state: NodeVolumeState): Because | undefined {
  const { mounted } = state;
  if (mounted?.hung === true)
    return {
      reason: "FilesystemHung",
      message: "the filesystem does not answer; see dmesg on the node",
    };
  const missing = isMissing(state) ? missingMember(state.record) : undefined;
  if (missing !== undefined) return { reason: "MembersMissing", message: missing };
  return state.problem ?? readOnly(state);
}

function readOnly({ mounted }: NodeVolumeState): Because | undefined {
  if (mounted?.readOnlySinceMs === undefined) return undefined;
  return { reason: "ReadOnly", message: readOnlyMessage(mounted.volume.mountPath, mounted.readOnlySinceMs) };
}

/** The path stands in full or not at all. One of kubelet's for a driver, of 138 characters, leaves room for very few words. */
function readOnlyMessage(mountPath: string, sinceMs: number): string {
  const remedy = "Look at dmesg: after an error, unmount, check and mount the filesystem; else";
  const since = `It is read-only since ${new Date(sinceMs).toISOString()}`;
  const withPath = [`${remedy} run mount -o remount,rw ${mountPath}`, `See dmesg; read-only: ${mountPath}`];
  const fitting = withPath.find(({ length }) => length <= MESSAGE_CHARACTERS);
  return fitting ?? `${remedy} remount it (mount -o remount,rw). ${since}`;
}

function missingMember(record: NodeRecord): string | undefined {
  const name = memberNameOf(record);
  return name && `member ${name} was created on this node and is missing now; bring it back`;
}

/** What will not mend by itself. */
function stallOf(state: NodeVolumeState, live: FilesystemLayout): Because | undefined {
  // Before a stale epoch: an etcd that was put back has both, and the member is the cause.
  const because = blocks(state) ?? unnamedOf(state, live);
  if (because !== undefined) return because;
  if (state.recordProblem !== undefined) return { reason: "RecordNotWritten", message: state.recordProblem };
  if (state.targetRefusal !== undefined) return { reason: "StaleEpoch", message: state.targetRefusal };
  if (state.unsettled?.problem !== undefined)
    return {
      reason: "ResizeFailed",
      message: withDetail("the resize has not ended; retrying", state.unsettled.problem),
    };
  if (state.leavingProblem !== undefined && !mends(state.leavingProblem)) return state.leavingProblem;
  return strangersOf(state) ?? failureOf(state);
}

/** By the node's record, which alone knows their volumes once the API server has lost member, claim and PersistentVolume. */
function unnamedOf({ record, mounted }: NodeVolumeState, { spec, status }: FilesystemLayout): Because | undefined {
  if (record.backend !== "span" || spec.members === undefined) return undefined;
  const named = new Set(spec.members.map(({ name }) => name));
  const found = mounted?.members ?? status?.members ?? [];
  const present = found.filter(({ state }) => state === "Present");
  const inside = new Set(present.map(({ name }) => name));
  const unnamed = [...record.members, ...(record.former ?? [])].filter(
    ({ name }) => inside.has(name) && !named.has(name),
  );
  if (unnamed.length === 0) return undefined;
  return { reason: "MembersMissing", message: `spec.members lacks ${unnamed.map(describeVolume).join(", ")}` };
}

/** It works with them for now. A layout that has lost a member, put back from a backup perhaps, looks the same. */
function strangersOf({ mounted }: NodeVolumeState): Because | undefined {
  const names = (mounted?.members ?? []).filter(({ state }) => state === "Stranger").map(({ name }) => name);
  if (names.length === 0) return undefined;
  const message = `add ${names.join(", ")} to spec.members, or take it out (btrfs device remove): it is part of the filesystem`;
  return { reason: "MembersMissing", message };
}

function mends({ reason }: Because): boolean {
  return reason === "WaitingForMember";
}

/** Of the last operation, unless its size was reached after all. */
function failureOf(state: NodeVolumeState): Because | undefined {
  const { lastOperation: last } = state.record;
  if (last?.outcome !== "Failed" || state.running !== undefined) return undefined;
  if (state.unsettled === undefined && isReached(state, last)) return undefined;
  return {
    reason: "ResizeFailed",
    message: withDetail(`${last.kind} from ${last.from} to ${last.to}`, last.message ?? "failed"),
  };
}

/** To the byte; of several members each is of a size of its own, so that they give, and leave with, more than was asked for. */
function isReached({ record, sizeBytes }: NodeVolumeState, { kind, to }: LastOperation): boolean {
  if (sizeBytes === undefined) return false;
  const toBytes = wholeGrains(parseQuantity(to));
  if (record.backend === "loop") return sizeBytes === toBytes;
  return kind === "Extend" ? sizeBytes >= toBytes : sizeBytes <= toBytes;
}

function pendingOf(state: NodeVolumeState): Because | undefined {
  if (state.running !== undefined) {
    const { kind, from, to, step } = state.running.operation;
    return { reason: "OperationRunning", message: `${kind} from ${from} to ${to}: ${step}` };
  }
  return pendingUnmade(state) ?? pendingMember(state) ?? pendingRelease(state) ?? pendingLeave(state);
}

function pendingMember({ record, mounted }: NodeVolumeState): Because | undefined {
  const awaited = mounted === undefined ? undefined : pendingMembers(record);
  return awaited === undefined ? undefined : { reason: "WaitingForMember", message: `waiting for ${awaited}` };
}

/** On its way to a mount, or back from one: until then no change of its members or size starts. */
function pendingRelease(state: NodeVolumeState): Because | undefined {
  if (state.mounted !== undefined || !state.held) return undefined;
  return { reason: "MembersHeld", message: state.leavingProblem?.message ?? situation(state) };
}

function pendingLeave({ leavingProblem }: NodeVolumeState): Because | undefined {
  return leavingProblem !== undefined && mends(leavingProblem) ? leavingProblem : undefined;
}

/** Nothing that is being done, and nothing that is wrong: an emergency has less to take. */
function spareless({ mounted }: NodeVolumeState): Because | undefined {
  const message = mounted?.spareProblem;
  return message === undefined ? undefined : { reason: "SpareMissing", message };
}

function pendingUnmade(state: NodeVolumeState): Because | undefined {
  return isUnmade(state)
    ? { reason: "Provisioning", message: `the ${unmade(state)} is made when a pod first uses the volume on this node` }
    : undefined;
}

function unmade({ record }: NodeVolumeState): string {
  return record.backend === "span" ? "filesystem" : "member";
}

function isUnmade({ record, phase, sizeBytes }: NodeVolumeState): boolean {
  return phase !== "Removed" && sizeBytes === undefined && !record.memberMade;
}

function isMissing({ record, phase, sizeBytes }: NodeVolumeState): boolean {
  return phase !== "Removed" && sizeBytes === undefined && record.memberMade;
}

function situation({ record, phase, mounted, held, sizeBytes }: NodeVolumeState): string {
  if (phase === "Removed") return "the member has been deleted";
  const size = sizeBytes === undefined ? "" : `${formatBytes(sizeBytes)}, `;
  const isRaw = volumeModeOf(record) === "Block";
  if (mounted === undefined && held) return `${size}not mounted; this node still has members of it`;
  if (mounted === undefined) return `${size}not ${isRaw ? "staged" : "mounted"}: no pod on this node uses it`;
  return `${size}${isRaw ? "staged as a raw block device" : "mounted"}`;
}
