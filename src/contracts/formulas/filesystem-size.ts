// How large a filesystem is, added up from its members: the one sum that operator and engine share. It never guesses: a partial
// sum would read as a smaller filesystem, and an extend or a shrink would then be decided on a size that never was.

import type { FilesystemLayout } from "../kinds/filesystem-layout.ts";
import { parseQuantity } from "../quantities/quantity.ts";

type ReportedMember = NonNullable<NonNullable<FilesystemLayout["status"]>["members"]>[number];

/**
 * Bytes: the sizes of all members, as the node reports them. Undefined means "not known", never 0: before the first report, and while a
 * member is missing, unreported, or has an unreadable size. Removed members and a spare are not part of the filesystem: they count for
 * nothing and leave nothing unknown. A span's node reports every device of the filesystem, so an unreported member of a span is still on
 * its way and does not count. No node reports an ordinary claim: its size is what its own driver has provided.
 */
export function filesystemSizeBytes({ spec, status }: FilesystemLayout): number | undefined {
  if (spec.backend === "claim") return claimBytes(spec);
  const reported = status?.members ?? [];
  const names = new Set(reported.map(({ name }) => name));
  const isUnreported = spec.members?.some(({ name, state }) => state !== "Removed" && !names.has(name));
  if (isUnreported && spec.backend !== "span") return undefined;
  const members = reported.filter(isPart);
  return members.length === 0 ? undefined : sumOf(members.map(presentBytes));
}

/**
 * Bytes that count against a namespace's budget: a missing member at the size that was last reported of it, since its bytes are
 * spent until it is removed; a spare is part of the emergency grant, which counts by itself. 0 only where nothing was ever reported.
 */
export function budgetedBytes({ spec, status }: FilesystemLayout): number {
  if (spec.backend === "claim") return claimBytes(spec) ?? 0;
  const members = (status?.members ?? []).filter(isPart);
  return members.reduce((sum, member) => sum + (readableBytes(member) ?? 0), 0);
}

function isPart({ state }: ReportedMember): boolean {
  return state !== "Removed" && state !== "Spare";
}

function presentBytes(member: ReportedMember): number | undefined {
  return member.state === "Present" ? readableBytes(member) : undefined;
}

function claimBytes({ members }: FilesystemLayout["spec"]): number | undefined {
  const size = members?.[0]?.source.claim?.capacity;
  return size === undefined ? undefined : readableBytes({ size });
}

// No device has 0 bytes: that is how a size that was never known is written.
function readableBytes({ size }: Pick<ReportedMember, "size">): number | undefined {
  try {
    return parseQuantity(size) || undefined;
  } catch {
    return undefined;
  }
}

function sumOf(sizes: readonly (number | undefined)[]): number | undefined {
  return sizes.reduce((sum, size) => (sum === undefined || size === undefined ? undefined : sum + size), 0);
}
