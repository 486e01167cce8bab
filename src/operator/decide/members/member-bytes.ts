// How many bytes each member of a span has or is to have, sums of them, and what a namespace may have of the members' class. Members are
// claims in another namespace, where the ResourceQuota of the user's namespace does not count them: they are counted here, in addition to
// what the namespace's own claims have of the class. Where no ResourceQuota limits the class a default budget does, for spans alone.
// Pure.
import type { FilesystemLayout, MemberSpec } from "../../../contracts/kinds/filesystem-layout.ts";
import { type ResourceQuota, storageKeyOf } from "../../../contracts/kubernetes/resources.ts";
import { formatBytes, parseQuantity, readQuantity } from "../../../contracts/quantities/quantity.ts";
import { isOut, isPart, isPresent } from "../layout-facts.ts";
import { isRefused, withRefusal } from "./decide-member-state.ts";

/** A member, and the bytes that it has or is to have. */
export interface Share {
  readonly member: MemberSpec;
  readonly bytes: number;
  /** What the filesystem has allocated of it, as its node has said last. Undefined: not known. */
  readonly allocatedBytes?: number | undefined;
}

/**
 * A member has what its node reports; before that, and while it grows, what was asked for; a rebuilt one has what its
 * volume has. 0: unknown. A spare that its node has taken in is no longer a spare, whatever the layout still says. One
 * whose device carries something is not a part of the filesystem.
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

export interface MemberQuota {
  readonly className: string;
  /** Of the ResourceQuota; undefined: it is the default budget. */
  readonly name: string | undefined;
  readonly limitBytes: number;
  /** What the namespace has of the class without the volume that is decided on. */
  readonly takenBytes: number;
}

/** The quota that leaves the least; undefined: none limits the class. `othersBytes`: of the members of its other volumes. */
export function tightestQuota(
  quotas: readonly ResourceQuota[],
  className: string,
  othersBytes: number,
): MemberQuota | undefined {
  const key = storageKeyOf(className);
  return quotas
    .flatMap(({ metadata: { name }, spec, status }) => {
      // One with scopes counts the claims of some VolumeAttributesClass only, and gives no namespace more than the
      // default budget.
      if (spec?.scopes !== undefined || spec?.scopeSelector !== undefined) return [];
      const limitBytes = readQuantity(spec?.hard?.[key]);
      // A limit beyond all sizes limits nothing.
      if (limitBytes === undefined) return [];
      const takenBytes = (readQuantity(status?.used?.[key] ?? "0") ?? limitBytes) + othersBytes;
      return [{ className, name, limitBytes, takenBytes }];
    })
    .sort((a, b) => a.limitBytes - a.takenBytes - (b.limitBytes - b.takenBytes))[0];
}

/** Why a volume cannot have members of so many bytes; undefined: it can. `refusedBytes`: of those, what nothing uses. */
export function quotaMessage(quota: MemberQuota, wantedBytes: number, refusedBytes: number): string | undefined {
  const { className, name, limitBytes, takenBytes } = quota;
  if (takenBytes + wantedBytes <= limitBytes) return undefined;
  const giver = name === undefined ? "the default budget (--default-namespace-budget)" : `ResourceQuota ${name}`;
  return (
    `${giver} allows ${formatBytes(limitBytes)} of class ${className}; others use ${formatBytes(takenBytes)}, this volume needs ${formatBytes(wantedBytes)}` +
    (refusedBytes === 0 ? "" : `, ${formatBytes(refusedBytes)} of that on refused devices`)
  );
}
