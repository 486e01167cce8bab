// How many bytes each member of a span has or is to have, and sums of them: what deciding on members counts with. Pure.
import type { FilesystemLayout, MemberSpec } from "../../api/filesystem-layout.ts";
import { parseQuantity } from "../../units/quantity.ts";
import { isOut, isPart, isPresent } from "../volume/layout-facts.ts";
import { isRefused, withRefusal } from "./refused-members.ts";

/** A member, and the bytes that it has or is to have. */
export interface Share {
  readonly member: MemberSpec;
  readonly bytes: number;
  /** What the filesystem has allocated of it, as its node has said last. Undefined: not known. */
  readonly allocatedBytes?: number | undefined;
}

/**
 * A member has what its node reports; before that, and while it grows, what was asked for; a rebuilt one what its volume has. 0: none
 * is known. A spare that its node has taken in is a spare no more, whatever the layout still says, and one whose device carries something
 * is no part of the filesystem.
 */
export function sharesOf(layout: FilesystemLayout): Share[] {
  const { spec, status } = layout;
  const reported = new Map(status?.members?.map((member) => [member.name, member]));
  return (spec.members ?? []).map((named) => {
    const member = withRefusal(layout, named);
    const { size, allocated } = reported.get(member.name) ?? {};
    return {
      member: member.state === "Spare" && isPresent(layout, member.name) ? { ...member, state: "Present" } : member,
      bytes: Math.max(
        parseQuantity(member.size ?? (member.state === "Spare" ? member.source.claim?.capacity : undefined) ?? "0"),
        parseQuantity(size ?? "0"),
      ),
      allocatedBytes: allocated === undefined ? undefined : parseQuantity(allocated),
    };
  });
}

/** Is to be in the filesystem. */
export function stays({ member }: Share): boolean {
  return isPart(member);
}

export function sumOf(shares: readonly Share[]): number {
  return shares.reduce((sum, { bytes }) => sum + bytes, 0);
}

/**
 * Bytes that the members have or are to have, those that shall leave among them: they are paid for until they have left. So is a volume
 * that was expanded and whose device did not follow, and one whose device carries something.
 */
export function memberBytesOf(layout: FilesystemLayout): number {
  return paidBytes(sharesOf(layout).filter(({ member }) => !isOut(layout, member)));
}

/** Those of them that nothing uses, since their devices carry something. */
export function refusedBytesOf(layout: FilesystemLayout): number {
  return paidBytes(sharesOf(layout).filter(({ member }) => isRefused(member)));
}

function paidBytes(paid: readonly Share[]): number {
  return sumOf(
    paid.map(({ member, bytes }) => ({
      member,
      bytes: Math.max(bytes, parseQuantity(member.source.claim?.capacity ?? "0")),
    })),
  );
}
