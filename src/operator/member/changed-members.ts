// A layout's members with something else wanted of some of them, which are told by their names. Pure.
import type { MemberSpec } from "../../api/filesystem-layout.ts";
import { formatQuantity } from "../../units/quantity.ts";

export function withState(members: readonly MemberSpec[], name: string, state: MemberSpec["state"]): MemberSpec[] {
  return members.map((member) => (member.name === name ? { ...member, state } : member));
}

export function withoutThese(members: readonly MemberSpec[], names: readonly string[]): MemberSpec[] {
  return members.map((member) => (names.includes(member.name) ? { ...member, state: "Removed" } : member));
}

export function withSize(members: readonly MemberSpec[], name: string, sizeBytes: number): MemberSpec[] {
  return members.map((member) => (member.name === name ? { ...member, size: formatQuantity(sizeBytes) } : member));
}
