// The members of a span, from its layout into the node's record: pure. What this node has in use is not taken from it by a
// layout that says less; the layout alone says what is attached.
import type { FilesystemLayout, MemberSpec } from "../../api/filesystem-layout.ts";
import { parseQuantity } from "../../units/quantity.ts";
import type { DriverVolume, SpanMember } from "./span-member.ts";

const MEMBER_NAME = /^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/;

/**
 * `staged`: the filesystem may be mounted here. The error, thrown by `refuse`, names what is wrong in the layout.
 */
export function readMembers(
  layout: FilesystemLayout,
  kept: readonly SpanMember[],
  staged: boolean,
  refuse: (problem: string) => Error,
): SpanMember[] {
  const members = (layout.spec.members ?? [])
    .filter((member) => !isGone(layout, member))
    .map((member) => readMember(layout, member, keptAs(kept, member), refuse));
  const names = new Set(members.map(({ name }) => name));
  // A map of the data that has lost a place by mistake does not make this node lose it, too.
  const lost = staged ? kept.filter(({ name, wanted }) => !names.has(name) && wanted !== "Removed") : [];
  return [...members, ...lost];
}

function keptAs(kept: readonly SpanMember[], { name }: MemberSpec): SpanMember | undefined {
  return kept.find((member) => member.name === name);
}

/** Wiped and given back: there is no way back from there, and nothing left to do. */
function isGone(layout: FilesystemLayout, { name, state }: MemberSpec): boolean {
  return state === "Removed" && reportedState(layout, name) === "Removed";
}

type ReportedState = NonNullable<NonNullable<FilesystemLayout["status"]>["members"]>[number]["state"];

function reportedState({ status }: FilesystemLayout, name: string): ReportedState | undefined {
  return status?.members?.find((member) => member.name === name)?.state;
}

/** A layout that says nothing of any member is a rebuilt one: what the node knows stands. */
function reportedDevice(
  { status }: FilesystemLayout,
  name: string,
  before: SpanMember | undefined,
): SpanMember["reported"] {
  const members = status?.members ?? [];
  if (members.length === 0) return before?.reported;
  const { state, deviceUUID, devid } = members.find((member) => member.name === name) ?? {};
  return state !== "Present" || deviceUUID === undefined || devid === undefined ? undefined : { deviceUUID, devid };
}

function readMember(
  layout: FilesystemLayout,
  member: MemberSpec,
  before: SpanMember | undefined,
  refuse: (problem: string) => Error,
): SpanMember {
  const { name, size, state, source, replaces } = member;
  if (!MEMBER_NAME.test(name)) throw refuse(`member "${name}" has no plain name`);
  const { claim } = source;
  if (claim === undefined) throw refuse(`member ${name} names no claim in source.claim`);
  const volume = before?.volume ?? driverVolumeOf(claim);
  const isSameVolume = volume?.volumeHandle === claim.volumeHandle;
  const isHere = claim.attachment !== undefined && claim.attachment.nodeName === layout.spec.nodeName;
  // There is no way back into being a spare, and the layout follows.
  const isTaken = state === "Spare" && (before?.taken === true || reportedState(layout, name) === "Present");
  return {
    name,
    claim: claim.name,
    wanted: isTaken ? "Present" : (state ?? "Present"),
    ...(isTaken ? { taken: true } : {}),
    ...(replaces === undefined ? {} : { replaces: true }),
    ...knownAgainst(layout, member),
    wasInside: reportedState(layout, name) === "Present",
    ...optional("reported", reportedDevice(layout, name, before)),
    ...optional("sizeBytes", bytesOf(size)),
    ...optional("capacityBytes", bytesOf(claim.capacity)),
    ...optional("volume", volume),
    ...optional(
      "persistentVolumeUID",
      before?.persistentVolumeUID ?? (isSameVolume ? claim.persistentVolumeUID : undefined),
    ),
    ...(isHere ? { attachment: { context: claim.attachment?.context ?? {} } } : {}),
  };
}

function knownAgainst({ status }: FilesystemLayout, { name, refused }: MemberSpec): Partial<SpanMember> {
  const carried = status?.refused?.find((one) => one.name === name)?.message;
  return { ...(refused === undefined ? {} : { refused: true }), ...optional("carried", carried) };
}

function bytesOf(quantity: string | undefined): number | undefined {
  return quantity === undefined ? undefined : parseQuantity(quantity);
}

function driverVolumeOf(claim: NonNullable<MemberSpec["source"]["claim"]>): DriverVolume | undefined {
  const { driver, volumeHandle, volumeAttributes = {} } = claim;
  if (driver === undefined || volumeHandle === undefined) return undefined;
  return {
    driver,
    volumeHandle,
    volumeAttributes,
    ...optional("nodeStageSecretRef", claim.nodeStageSecretRef),
    ...optional("nodePublishSecretRef", claim.nodePublishSecretRef),
    ...optional("nodeExpandSecretRef", claim.nodeExpandSecretRef),
  };
}

/** The record is written as JSON: what is not there has no key. */
function optional<Key extends string, Value>(key: Key, value: Value | undefined): { [K in Key]?: Value } {
  return value === undefined ? {} : ({ [key]: value } as { [K in Key]: Value });
}
