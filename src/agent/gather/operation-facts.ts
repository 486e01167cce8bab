// What decisions about a volume's size depend on, the members of a mounted span among it: pure, from the layout, the node's record and what
// was found in the filesystem.

import type { FilesystemLayout } from "../../contracts/kinds/filesystem-layout.ts";
import type { ReadableStore } from "../../platform/kube/cache/store.ts";
import type { Clock } from "../../platform/process/clock.ts";
import type { OperationFacts, ReadySpare, SpanMemberFacts } from "../decide/decide-operation.ts";
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
import type { NodeVolumeState } from "../volumes/volume-state.ts";
import { isRemovalWanted, targetOf } from "./layout-record.ts";

export function layoutOnThisNode(
  { layouts, nodeName }: { readonly layouts: Pick<ReadableStore<FilesystemLayout>, "get">; readonly nodeName: string },
  handle: string,
): FilesystemLayout | undefined {
  const layout = layouts.get(handle);
  return layout?.spec.nodeName === nodeName ? layout : undefined;
}

export function factsOf(
  { layoutsKnown, clock }: { readonly layoutsKnown: () => boolean; readonly clock: Pick<Clock, "monotonicMs"> },
  state: NodeVolumeState,
  layout: FilesystemLayout | undefined,
): OperationFacts {
  const { record, running } = state;
  return {
    mounted: state.mounted !== undefined && !state.closing,
    readOnly: state.mounted?.readOnlySinceMs !== undefined,
    sizeBytes: state.sizeBytes,
    layoutKnown: layoutsKnown() && layout !== undefined,
    // The operator deletes the claims of a span's members, once nothing is attached any longer.
    removalWanted: record.backend !== "span" && layout !== undefined && isRemovalWanted(layout),
    removed: state.phase === "Removed",
    shrinksOnlyUnmounted: record.fsType === "ext4",
    members: membersNow(state, clock.monotonicMs()),
    target: layout === undefined ? undefined : targetOf(layout),
    highestEpoch: record.epoch,
    endedDecidedAt: record.endedDecidedAt,
    running:
      running === undefined
        ? undefined
        : {
            kind: running.operation.kind,
            decidedAt: running.operation.decidedAt,
            cancelling: running.cancellation !== undefined,
          },
    interrupted: running === undefined ? record.operation : undefined,
  };
}

const REFUSED_LOOK_MS = 30_000;

/** Undefined for a volume whose one member takes any size. */
export function spanMemberFactsOf(
  { record, mounted, sizeBytes = 0 }: NodeVolumeState,
  monotonicMs: number,
): SpanMemberFacts | undefined {
  if (record.backend !== "span") return undefined;
  const members = mounted?.members ?? [];
  const found = new Map(members.map((member) => [member.name, member]));
  const isDue = ({ state, lookedMs = Number.NEGATIVE_INFINITY }: FoundMember): boolean =>
    state === "Refused" && monotonicMs - lookedMs >= REFUSED_LOOK_MS;
  const isInside = ({ name }: SpanMember): boolean => found.get(name)?.state === "Present";
  const wanted = record.members.filter((member) => member.wanted === "Present");
  const gains = wanted.filter(isAttached).map((member) => {
    // A member that was refused before adds no room until this agent has checked it too.
    const isUnseen = !found.has(member.name) && member.carried === undefined;
    const isBeside = isUnseen || found.get(member.name)?.state === "Spare";
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
    unreleased:
      members.some(({ state }) => state === "Leaving") ||
      refusedMembers(record, members).some(({ member, device }) => member.wanted === "Removed" && isDue(device)),
  };
}

/** How long until a refused member is checked again, ms: a device that is wiped sends no event. Undefined: no member is refused. */
export function nextLookMs({ record, mounted }: NodeVolumeState, monotonicMs: number): number | undefined {
  const looks = refusedMembers(record, mounted?.members ?? []).map(({ device: { lookedMs = 0 } }) => lookedMs);
  if (looks.length === 0) return undefined;
  const leftMs = Math.min(...looks) + REFUSED_LOOK_MS - monotonicMs;
  // It had no turn, for what goes first.
  return leftMs > 0 ? leftMs : REFUSED_LOOK_MS;
}

/** Refused members that the agent checks again: those next to the filesystem, and those asked to leave. */
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
export function promisedBytes(state: NodeVolumeState): number {
  return sumOfGrowths(state, () => true);
}

/** The same, but only of members whose devices were not as large yet when last checked. */
function laggingBytes(state: NodeVolumeState): number {
  return sumOfGrowths(state, (member, { deviceBytes = 0 }) => deviceBytes < deliveredBytes(member));
}

function sumOfGrowths(
  { record, mounted }: NodeVolumeState,
  counts: (member: SpanMember, found: FoundMember) => boolean,
): number {
  if (record.backend !== "span" || mounted === undefined) return 0;
  const found = new Map(mounted.members.map((member) => [member.name, member]));
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

/**
 * After an extend has waited in vain for a member's device to grow, the agent does not count on that growth for so long. In this time the
 * operator may add a member. Growth that has arrived by then is used at once. From the end of the extend that waited.
 */
export const GROWTH_PAUSE_MS = 30_000;
/** How often the agent checks the devices during the pause. */
export const GROWTH_LOOK_MS = 5000;

/** What the members allow at this moment, without what a pause is for. Undefined for a volume whose one member takes any size. */
export function membersNow(state: NodeVolumeState, monotonicMs: number): SpanMemberFacts | undefined {
  const facts = spanMemberFactsOf(state, monotonicMs);
  return facts && { ...facts, attainableBytes: facts.attainableBytes - pausedBytes(state, monotonicMs) };
}

/** What is promised, and not counted on for a while. */
export function pausedBytes(state: NodeVolumeState, monotonicMs: number): number {
  const { lastOperation } = state.record;
  const hasFailed = lastOperation?.outcome === "Failed" && lastOperation.reason === "WaitingForMember";
  return hasFailed && monotonicMs - state.operationEndedMs < GROWTH_PAUSE_MS ? laggingBytes(state) : 0;
}
