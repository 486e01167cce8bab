// Changes what is wanted of a layout's members: of some by their names, and by new ones, each with a number that no other ever had. Pure.
import type { SizeTarget } from "../../../contracts/kinds/filesystem.ts";
import type { FilesystemLayout, MemberSpec } from "../../../contracts/kinds/filesystem-layout.ts";
import type { KubeObject } from "../../../contracts/kubernetes/object.ts";
import { NEXT_MEMBER_ANNOTATION } from "../../../contracts/names.ts";
import { formatQuantity } from "../../../contracts/quantities/quantity.ts";
import { memberClaimName, memberIndex, memberName } from "../../volumes/member-objects.ts";

export function withState(members: readonly MemberSpec[], name: string, state: MemberSpec["state"]): MemberSpec[] {
  return members.map((member) => (member.name === name ? { ...member, state } : member));
}

export function withoutThese(members: readonly MemberSpec[], names: readonly string[]): MemberSpec[] {
  return members.map((member) => (names.includes(member.name) ? { ...member, state: "Removed" } : member));
}

export function withSize(members: readonly MemberSpec[], name: string, sizeBytes: number): MemberSpec[] {
  return members.map((member) => (member.name === name ? { ...member, size: formatQuantity(sizeBytes) } : member));
}

/** What an object says that the next member's number is; 0 where it says nothing. */
export function countOn({ metadata }: KubeObject): number {
  const count = Number(metadata.annotations?.[NEXT_MEMBER_ANNOTATION] ?? 0);
  return Number.isSafeInteger(count) && count > 0 ? count : 0;
}

/** The number of the member that is made next: above every one that was ever made. */
export function nextMemberOf(layout: FilesystemLayout): number {
  const { spec, status } = layout;
  const used = [...(spec.members ?? []), ...(status?.members ?? [])].map(({ name }) => memberIndex(name) ?? 0);
  return Math.max(countOn(layout), ...used.map((index) => index + 1));
}

/** `bytes` undefined: as found. */
export function newMember(handle: string, index: number, bytes: number | undefined): MemberSpec {
  const name = memberName(index);
  return {
    name,
    ...(bytes === undefined ? {} : { size: formatQuantity(bytes) }),
    state: "Present",
    source: { claim: { name: memberClaimName(handle, name).name } },
  };
}

/** Made outside the filesystem, and taken in once it is ready. */
export function replacement(
  layout: FilesystemLayout,
  { member, sizeBytes }: { readonly member: string; readonly sizeBytes: number },
  { decidedAt }: SizeTarget,
): MemberSpec {
  const made = newMember(layout.metadata.name, nextMemberOf(layout), sizeBytes);
  return { ...made, state: "Spare", replaces: { member, decidedAt } };
}
