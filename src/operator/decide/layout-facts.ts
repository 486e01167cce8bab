// What a FilesystemLayout says when its fields are read together. Pure; an absent report stays undefined, never 0.

import { filesystemSizeBytes } from "../../contracts/formulas/filesystem-size.ts";
import type { FilesystemLayout, MemberSpec } from "../../contracts/kinds/filesystem-layout.ts";
import { parseQuantity } from "../../contracts/quantities/quantity.ts";

/** The members' sizes added up: as reported by the node, before its first report as ordered. Undefined: not known. */
export function presentBytes(layout: FilesystemLayout): number | undefined {
  return filesystemSizeBytes(layout) ?? orderedBytes(layout);
}

function orderedBytes({ spec, status }: FilesystemLayout): number | undefined {
  const members = spec.members ?? [];
  if (members.length === 0 || (status?.members?.length ?? 0) > 0) return undefined;
  let sum = 0;
  for (const { size } of members) {
    if (size === undefined) return undefined;
    sum += parseQuantity(size);
  }
  return sum;
}

/** Whether the node has confirmed that every member of the layout is gone. */
export function isRemoved({ spec, status }: FilesystemLayout): boolean {
  const reported = new Map((status?.members ?? []).map(({ name, state }) => [name, state]));
  const members = spec.members ?? [];
  return members.length > 0 && members.every(({ name }) => reported.get(name) === "Removed");
}

/**
 * Whether a member is out of the filesystem permanently. It was asked to go, and its node has reported that it is
 * wiped, or no node ever learned of its device. Until then it is a part of the filesystem like any other.
 */
export function isOut({ status }: FilesystemLayout, { name, state, source }: MemberSpec): boolean {
  if (state !== "Removed") return false;
  const reported = status?.members?.find((member) => member.name === name);
  return reported === undefined
    ? source.claim !== undefined && source.claim.uid === undefined
    : reported.state === "Removed";
}

/** Whether a member is to be in the filesystem. */
export function isPart({ state }: MemberSpec): boolean {
  return state !== "Removed" && state !== "Spare";
}

/** Whether its node has it of just this size. */
export function isOfSize(layout: FilesystemLayout, size: string): boolean {
  return filesystemSizeBytes(layout) === parseQuantity(size);
}

/** Whether its node has that member in the filesystem, whatever the layout says of it. */
export function isPresent({ status }: FilesystemLayout, name: string): boolean {
  return status?.members?.some((member) => member.name === name && member.state === "Present") === true;
}

/** Whether its node has said that the filesystem has that member, and nothing on it. */
export function isEmpty({ status }: FilesystemLayout, name: string): boolean {
  const { state, allocated } = status?.members?.find((member) => member.name === name) ?? {};
  return state === "Present" && allocated !== undefined && parseQuantity(allocated) === 0;
}

/** Whether its node has that member ready outside the filesystem. */
export function isBeside({ status }: FilesystemLayout, name: string): boolean {
  return status?.members?.some((member) => member.name === name && member.state === "Spare") === true;
}

/**
 * Members that are to be in the filesystem, and that its node found it to be complete without: a shrink that is newer than the layout took
 * them out. The layout came from a backup, perhaps.
 */
export function departedMembers({ spec, status }: FilesystemLayout): MemberSpec[] {
  const left = new Set(status?.members?.filter(({ state }) => state === "Removed").map(({ name }) => name));
  const parts = (spec.members ?? []).filter(isPart);
  return parts.every(({ name }) => left.has(name)) ? [] : parts.filter(({ name }) => left.has(name));
}

/**
 * Whether it is mounted on the node that it is given to, with nothing going on. Then that node reports what is in it,
 * and releases the rest. Only then is a member that was never in it asked to go. While the filesystem is mounted
 * nowhere, that member would be attached with the others first.
 */
export function isAtRest(layout: FilesystemLayout): boolean {
  return isMounted(layout) && !layout.status?.operation;
}

/**
 * Whether it is mounted where it is given to. `status.mounted` alone says that its node has members of it: also on the way to a mount, or behind
 * an unmount whose rest has failed.
 */
export function isMounted({ spec, status }: FilesystemLayout): boolean {
  const isHeld = status?.conditions?.some(({ status: holds, reason }) => holds === "True" && reason === "MembersHeld");
  return status?.mounted === true && status.nodeName === spec.nodeName && isHeld !== true;
}

/** Whether the volume is on its way out: every member is asked to go. */
export function isRemoving({ spec }: FilesystemLayout): boolean {
  const members = spec.members ?? [];
  return members.length > 0 && members.every(({ state }) => state === "Removed");
}

/** Whether it only keeps a name: made, and not filled in yet (volume-objects.ts). It says nothing of any volume. */
export function isBlank({ spec }: FilesystemLayout): boolean {
  return spec.backend === undefined;
}

/**
 * Whether it was recreated from records, which do not have sizes, and no node has reported since whether it has the
 * volume mounted. In a layout that was never lost an agent reports that before it touches anything.
 */
export function isUnheard({ spec, status }: FilesystemLayout): boolean {
  return status?.mounted === undefined && (spec.members ?? []).some(({ size }) => size === undefined);
}

/**
 * The node that has it mounted, by what the layout says. In a recreated layout the node that its spec names counts
 * until a node reports.
 */
export function mountNodeOf(layout: FilesystemLayout): string | undefined {
  const { spec, status } = layout;
  if (status?.mounted === true) return status.nodeName;
  return isUnheard(layout) ? spec.nodeName : undefined;
}

/**
 * Members that the mounted filesystem has and the spec no longer names: it was restored from a backup, or edited by
 * hand.
 */
export function unnamedMembers({ spec, status }: FilesystemLayout): string[] {
  if (spec.members === undefined) return [];
  const named = new Set(spec.members.map(({ name }) => name));
  const unnamed = (status?.members ?? []).filter(({ name, state }) => state !== "Removed" && !named.has(name));
  return unnamed.map(({ name }) => name);
}
