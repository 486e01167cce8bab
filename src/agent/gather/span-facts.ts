// What the members of a mounted span allow at this moment: pure, from the node's record and what was found in the filesystem.
import type { MemberFacts, ReadySpare } from "../decide/decide-operation.ts";
import {
  deliveredBytes,
  describeAwaited,
  describeGrowing,
  isAttached,
  isGrowing,
  membersWithVolume,
  requiredMembers,
  type SpanMember,
} from "../member-drivers/span-member.ts";
import type { FoundMember } from "../storage/storage.ts";
import type { NodeRecord } from "../volumes/node-records.ts";
import type { VolumeState } from "../volumes/volume-state.ts";

const REFUSED_LOOK_MS = 30_000;

/** Undefined for a volume whose one member takes any size. */
export function memberFactsOf(
  { record, members, sizeBytes = 0 }: VolumeState,
  monotonicMs: number,
): MemberFacts | undefined {
  if (record.backend !== "span") return undefined;
  const found = new Map(members.map((member) => [member.name, member]));
  const isDue = ({ state, lookedMs = Number.NEGATIVE_INFINITY }: FoundMember): boolean =>
    state === "Refused" && monotonicMs - lookedMs >= REFUSED_LOOK_MS;
  const isInside = ({ name }: SpanMember): boolean => found.get(name)?.state === "Present";
  const wanted = record.members.filter((member) => member.wanted === "Present");
  const gains = wanted.filter(isAttached).map((member) => {
    const isBeside = !found.has(member.name) || found.get(member.name)?.state === "Spare";
    if (isBeside) return member.capacityBytes ?? member.sizeBytes ?? 0;
    return isInside(member) ? growthBytes(member, found.get(member.name)) : 0;
  });
  return {
    attainableBytes: sizeBytes + gains.reduce((sum, bytes) => sum + bytes, 0),
    spares: readySpares(record.members, members),
    spareToPrepare: record.members.some((member) => {
      const device = found.get(member.name);
      return member.wanted === "Spare" && isAttached(member) && (device === undefined || isDue(device));
    }),
    awaited: pendingMembers(record),
    leaving: record.members.some((member) => member.wanted === "Removed" && isInside(member)),
    unsettled:
      members.some(({ state }) => state === "Leaving") ||
      refusedMembers(record, members).some(({ member, device }) => member.wanted === "Removed" && isDue(device)),
  };
}

/** In how long one that was refused is looked at again, ms: who has wiped it does not say so. Undefined: there is none. */
export function nextLookMs({ record, members }: VolumeState, monotonicMs: number): number | undefined {
  const looks = refusedMembers(record, members).map(({ device: { lookedMs = 0 } }) => lookedMs);
  if (looks.length === 0) return undefined;
  const leftMs = Math.min(...looks) + REFUSED_LOOK_MS - monotonicMs;
  // It had no turn, for what goes first.
  return leftMs > 0 ? leftMs : REFUSED_LOOK_MS;
}

/** Those that are looked at again: beside the filesystem, or asked to go. */
function refusedMembers(
  record: NodeRecord,
  found: readonly FoundMember[],
): { readonly member: SpanMember; readonly device: FoundMember }[] {
  if (record.backend !== "span") return [];
  const refused = new Map(found.filter(({ state }) => state === "Refused").map((device) => [device.name, device]));
  return record.members.flatMap((member) => {
    const device = refused.get(member.name);
    return device === undefined || member.wanted === "Present" || !isAttached(member) ? [] : [{ member, device }];
  });
}

/** What a span's members that are in the filesystem would add to it if they became as large as their drivers say; 0 of others. */
export function promisedBytes(state: VolumeState): number {
  return sumOfGrowths(state, () => true);
}

/** The same of those whose devices were not as large when they were looked at last. */
export function laggingBytes(state: VolumeState): number {
  return sumOfGrowths(state, (member, { deviceBytes = 0 }) => deviceBytes < deliveredBytes(member));
}

function sumOfGrowths(
  { record, members }: VolumeState,
  counts: (member: SpanMember, found: FoundMember) => boolean,
): number {
  if (record.backend !== "span") return 0;
  const found = new Map(members.map((member) => [member.name, member]));
  return record.members.reduce((sum, member) => {
    const device = found.get(member.name);
    const isInside = member.wanted === "Present" && isAttached(member) && device?.state === "Present";
    return isInside && counts(member, device) ? sum + growthBytes(member, device) : sum;
  }, 0);
}

function growthBytes(member: SpanMember, found: FoundMember | undefined): number {
  return Math.max(0, deliveredBytes(member) - (found?.sizeBytes ?? Number.POSITIVE_INFINITY));
}

/** Whether every member is on this node without which the filesystem is not mounted, nor made. */
export function canMount(record: NodeRecord): boolean {
  if (record.backend !== "span") return true;
  const required = requiredMembers(record.members, record.memberMade);
  const looked = record.memberMade ? [] : membersWithVolume(record.members);
  return required.length > 0 && [...required, ...looked].every(isAttached);
}

/** Wanted members that are not on this node yet, or not as large as they shall be, for people; undefined when all are. */
export function pendingMembers(record: NodeRecord): string | undefined {
  if (record.backend !== "span") return undefined;
  const wanted = record.members.filter((member) => member.wanted === "Present");
  const awaited = wanted.filter((member) => !isAttached(member)).map(describeAwaited);
  const growing = wanted.filter((member) => isAttached(member) && isGrowing(member)).map(describeGrowing);
  const pending = [...awaited, ...growing];
  return pending.length === 0 ? undefined : pending.join(" and ");
}

/** The record after an emergency has taken these spares for members. */
export function withSparesTaken(record: NodeRecord, names: readonly string[]): NodeRecord {
  if (record.backend !== "span") return record;
  const members = record.members.map(
    (member): SpanMember =>
      names.includes(member.name) && member.wanted === "Spare" ? { ...member, wanted: "Present", taken: true } : member,
  );
  return { ...record, members };
}

function readySpares(members: readonly SpanMember[], found: readonly FoundMember[]): ReadySpare[] {
  const ready = new Map(found.filter(({ state }) => state === "Spare").map((one) => [one.name, one.sizeBytes ?? 0]));
  return members.flatMap(({ name, wanted, replaces = false }) => {
    const sizeBytes = wanted === "Spare" ? ready.get(name) : undefined;
    return sizeBytes === undefined ? [] : [{ name, sizeBytes, replaces }];
  });
}

/** What the node's people call the one member of a volume; undefined for one that can have several. */
export function memberNameOf(record: NodeRecord): string | undefined {
  switch (record.backend) {
    case "loop":
      return record.memberFile;
    case "lvm":
      return `${record.deviceClass}/${record.volumeID}`;
    case "span":
      return undefined;
  }
}
