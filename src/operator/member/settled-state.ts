// What a member's wanted state becomes by what its node reports. Pure. A removal that its node has given up is taken back, and one
// that its node has finished holds, whatever was wanted meanwhile: a wiped device is never used again.
import type { FilesystemLayout, MemberSpec } from "../../api/filesystem-layout.ts";

export function settledState(layout: FilesystemLayout, { name, state }: MemberSpec): MemberSpec["state"] {
  const reported = layout.status?.members?.find((member) => member.name === name)?.state;
  if (reported === "Removed") return staysWithout(layout) ? "Removed" : state;
  return state === "Removed" && reported === "Present" && isGivenUp(layout) ? "Present" : state;
}

/** A layout without a member that stays is one that is deleted, which is not for a node to decide. */
function staysWithout({ spec, status }: FilesystemLayout): boolean {
  const removed = new Set(status?.members?.filter(({ state }) => state === "Removed").map(({ name }) => name));
  return (spec.members ?? []).some(({ name, state }) => state !== "Removed" && !removed.has(name));
}

function isGivenUp({ spec, status }: FilesystemLayout): boolean {
  const last = status?.lastOperation;
  if (status?.operation || last === undefined || last.outcome === "Succeeded") return false;
  return last.kind === "Shrink" && last.decidedAt !== undefined && last.decidedAt === spec.target?.decidedAt;
}
