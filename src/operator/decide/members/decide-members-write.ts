// What a layout says of its members after a pass over them, in one write: their sources, the states that their node has settled, what is
// remembered of their growth, and a spare that is ordered or goes. Pure.
import type { ClaimSource } from "../../../contracts/kinds/claim-source.ts";
import type { FilesystemLayout, MemberSpec } from "../../../contracts/kinds/filesystem-layout.ts";
import type { LayoutFields } from "../../volumes/layout-fields.ts";
import type { MemberEnd } from "../decide-member.ts";
import type { MemberReport } from "../decide-status.ts";
import { departedMembers, isRemoving } from "../layout-facts.ts";
import { decideMemberStates, isRefused } from "./decide-member-state.ts";
import { withoutEndedMark } from "./decide-replacement.ts";
import { isSpare, type SpareFacts, spareFields } from "./decide-spare.ts";
import { type ClassFailure, growthNews } from "./member-growth.ts";

/** A member that is not out of its filesystem, and what has come of it in a pass. */
export interface PassedMember extends MemberEnd {
  readonly found: MemberSpec;
}

/**
 * For people. Nothing waits for a member that is refused: what there is to say of it is said (decide-status.ts). `leaving`: what those wait
 * for that are out of the filesystem.
 */
export function membersReport(passed: readonly PassedMember[], leaving: readonly string[]): MemberReport {
  const used = passed.filter(({ found }) => !isRefused(found));
  const spares = used.filter(({ found }) => isSpare(found));
  const others = used.filter(({ found }) => !isSpare(found));
  const wrong = others.find((one) => one.wrong !== undefined)?.wrong;
  return {
    waiting: [...others.flatMap(({ waiting }) => waiting ?? []), ...leaving],
    problem: wrong === undefined ? undefined : { reason: "MemberFailed", message: wrong },
    spare: spares.map((one) => one.wrong ?? one.waiting).find((why) => why !== undefined),
  };
}

/** What was done for the members of a layout. */
export interface MembersDone {
  /** By their names: what the layout may say of them now. */
  readonly sources: ReadonlyMap<string, ClaimSource>;
  /** Names of members of which nothing is left. */
  readonly gone: ReadonlySet<string>;
  /** Their class has lately failed to grow one. */
  readonly noGrowth: ClassFailure | undefined;
}

export interface MembersWrite {
  /** Undefined: what was done is of another specification. Else as it is to be, also where it is so already. */
  readonly fields: LayoutFields | undefined;
  /** Members that had left before, and that it takes from those that are to be in the filesystem. */
  readonly left: readonly MemberSpec[];
  /** Why there is no spare, though there shall be one. */
  readonly lack: string | undefined;
}

/** `layout`: what was done was decided on it. `current`: as it is. `spare` undefined: it is not the time for one. */
export function decideMembersWrite(
  layout: FilesystemLayout,
  current: FilesystemLayout,
  done: MembersDone,
  spare: SpareFacts | undefined,
  nowMs: number,
): MembersWrite {
  const isSame = isDecidedOn(layout, current);
  const recorded = isSame ? memberFields(current, done, nowMs) : undefined;
  const after = recorded?.members ? { ...current, spec: { ...current.spec, members: recorded.members } } : current;
  const ordered = spare === undefined ? {} : spareFields(after, spare);
  return {
    fields: recorded === undefined && ordered.fields === undefined ? undefined : { ...recorded, ...ordered.fields },
    left: isSame ? departedMembers(current) : [],
    lack: ordered.lack,
  };
}

/** That very specification: a volume that was unpublished and published since, to any node, is decided on again. */
function isDecidedOn(layout: FilesystemLayout, current: FilesystemLayout): boolean {
  const isSame =
    current.metadata.uid === layout.metadata.uid && current.metadata.generation === layout.metadata.generation;
  return isSame && !isRemoving(current);
}

function memberFields(layout: FilesystemLayout, { sources, gone, noGrowth }: MembersDone, nowMs: number): LayoutFields {
  const members = decideMemberStates(layout)
    .filter(({ named }) => !(named.state === "Removed" && gone.has(named.name)))
    .map(({ found }): MemberSpec => {
      const source = sources.get(found.name);
      return { ...withoutEndedMark(layout, found), ...(source === undefined ? {} : { source: { claim: source } }) };
    });
  const growth = noGrowth && growthNews(layout, noGrowth, nowMs);
  return { members, ...(growth && { growth }) };
}
