// Reading a FilesystemLayout as this node's agent: pure, strict, and nothing from the API becomes a path unchecked. What this node has in
// use is not taken from it by a layout that says less; the layout alone says what is attached.

import { volumeUIDOf } from "../../contracts/identity.ts";
import { FILE_NAME, type FilesystemLayout, type MemberSpec } from "../../contracts/kinds/filesystem-layout.ts";
import { readTarget, type Target } from "../../contracts/kinds/target.ts";
import { parseQuantity } from "../../contracts/quantities/quantity.ts";
import { acceptedGrant } from "../decide/decide-emergency.ts";
import type { DriverVolume, SpanMember } from "../member-drivers/span-member.ts";
import type { LoopRecord, LvmRecord, NodeRecord, SpanRecord } from "../volumes/node-records.ts";

/** As LVM allows them (lvm(8)), less those that begin with a dot or a hyphen: they name files and are arguments. */
const VOLUME_NAME = /^[A-Za-z0-9_+][A-Za-z0-9_+.-]{0,126}$/;
const CLASS_NAME = /^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$/;

/** A layout that cannot be acted upon; the message says what is missing in it. */
export class LayoutError extends Error {
  override name = "LayoutError";
}

/**
 * The record of a volume after its layout was read. What the node knows of a member that it made is not changed by a layout:
 * a rebuilt one may say less. Throws LayoutError.
 */
export function recordWithLayout(layout: FilesystemLayout, kept: NodeRecord | undefined): NodeRecord {
  const record = withMembers(kept ?? recordOfLayout(layout), layout);
  const { claimRef, target, emergency } = layout.spec;
  const epoch = Math.max(record.epoch, layout.status?.epoch ?? 0);
  const grant = acceptedGrant(record.grant, emergency, epoch);
  return {
    ...record,
    claimRef: claimRef ?? record.claimRef,
    grant,
    epoch: Math.max(epoch, target?.epoch ?? 0, grant?.epoch ?? 0),
  };
}

function withMembers(record: NodeRecord, layout: FilesystemLayout): NodeRecord {
  const { spec, metadata } = layout;
  switch (record.backend) {
    case "loop": {
      const size = spec.members?.[0]?.size;
      return { ...record, initialSizeBytes: size === undefined ? record.initialSizeBytes : parseQuantity(size) };
    }
    case "lvm":
      return record;
    case "span": {
      const refuse = (problem: string): Error => new LayoutError(`FilesystemLayout ${metadata.name}: ${problem}`);
      const members = readMembers(layout, record.members, record.stagingPath !== undefined, refuse);
      const { former: _before, ...rest } = record;
      const former = formerMembers(layout, record, members);
      const memberMade = record.memberMade || wasFormatted(layout);
      return { ...rest, members, ...(former.length === 0 ? {} : { former }), memberMade };
    }
  }
}

/** A layout that was put back from a backup names them no more, and then this record alone does. */
function formerMembers({ spec }: FilesystemLayout, before: SpanRecord, members: readonly SpanMember[]): SpanMember[] {
  const named = new Set([...(spec.members ?? []), ...members].map(({ name }) => name));
  const known = new Map([...(before.former ?? []), ...before.members].map((member) => [member.name, member]));
  return [...known.values()].filter(
    ({ name, wanted, wasInside }) => !named.has(name) && wanted === "Present" && wasInside,
  );
}

/** Another node's agent has said so; or the layout is a rebuilt one, of a filesystem that was there before. */
function wasFormatted({ spec, status }: FilesystemLayout): boolean {
  // Not status.mounted, which is said before anything is made.
  if (status?.lastOperation !== undefined) return true;
  return (status?.members ?? []).length > 0 || (spec.members ?? []).some(({ size }) => size === undefined);
}

function recordOfLayout(layout: FilesystemLayout): NodeRecord {
  const { metadata, spec } = layout;
  const handle = metadata.name;
  if (volumeUIDOf(handle) === undefined)
    throw new LayoutError(`FilesystemLayout "${handle}" is not named like a volume handle (fs-UUID)`);
  if (spec.volumeMode === "Block") return rawRecordOf(layout);
  if (spec.fsType === undefined) throw new LayoutError(`FilesystemLayout ${handle} has no fsType`);
  const { fsType } = spec;
  const common = { handle, fsType, ...pastOf(layout) };
  switch (spec.backend) {
    case "loop":
      return { backend: "loop", ...common, ...loopMemberOf(layout) } satisfies LoopRecord;
    case "lvm":
      return { backend: "lvm", ...common, ...logicalVolumeOf(layout) } satisfies LvmRecord;
    case "span":
      return { backend: "span", ...common, members: [], memberMade: false } satisfies SpanRecord;
    default:
      throw new LayoutError(
        `FilesystemLayout ${handle} has the backend ${spec.backend ?? "none"}, which no agent serves`,
      );
  }
}

/** A type, where the layout names one, is nothing that it is ever formatted with. */
function rawRecordOf(layout: FilesystemLayout): LvmRecord {
  const { metadata, spec } = layout;
  if (spec.backend === "lvm")
    return {
      backend: "lvm",
      volumeMode: "Block",
      handle: metadata.name,
      ...pastOf(layout),
      ...logicalVolumeOf(layout),
    };
  throw new LayoutError(
    `FilesystemLayout ${metadata.name} has volumeMode Block and the backend ${spec.backend ?? "none"}; only lvm has raw block volumes`,
  );
}

/** What other agents have done with it. */
function pastOf({
  status,
}: FilesystemLayout): Pick<NodeRecord, "epoch" | "lastOperation" | "operation" | "endedDecidedAt" | "lastTrim"> {
  return {
    epoch: 0,
    lastOperation: status?.lastOperation,
    operation: status?.operation ?? undefined,
    endedDecidedAt: status?.endedDecidedAt ?? status?.lastOperation?.decidedAt,
    lastTrim: status?.lastTrim,
  };
}

function loopMemberOf(layout: FilesystemLayout): Pick<LoopRecord, "memberName" | "memberFile" | "memberMade"> {
  const member = onlyMemberOf(layout);
  const memberFile = member.source.loop?.file;
  if (memberFile === undefined || !FILE_NAME.test(memberFile))
    throw new LayoutError(
      `FilesystemLayout ${layout.metadata.name}: member ${member.name} names no plain file in source.loop.file`,
    );
  return { memberName: member.name, memberFile, memberMade: wasMade(layout, member) };
}

function logicalVolumeOf(
  layout: FilesystemLayout,
): Pick<LvmRecord, "memberName" | "deviceClass" | "volumeID" | "memberMade"> {
  const member = onlyMemberOf(layout);
  const { volumeID = "", deviceClass = "" } = member.source.logicalVolume ?? {};
  if (!VOLUME_NAME.test(volumeID) || !CLASS_NAME.test(deviceClass))
    throw new LayoutError(
      `FilesystemLayout ${layout.metadata.name}: member ${member.name} names no logical volume in source.logicalVolume ` +
        `(volumeID "${volumeID}", deviceClass "${deviceClass}")`,
    );
  return { memberName: member.name, deviceClass, volumeID, memberMade: wasMade(layout, member) };
}

function onlyMemberOf({ metadata, spec }: FilesystemLayout): MemberSpec {
  const [member, ...others] = spec.members ?? [];
  if (member !== undefined && others.length === 0) return member;
  throw new LayoutError(
    `FilesystemLayout ${metadata.name} has ${spec.members?.length ?? 0} members; a node-local one has exactly one`,
  );
}

/** "Missing" too: it was made, and this node has said that it is gone. */
function wasMade({ status }: FilesystemLayout, member: MemberSpec): boolean {
  return status?.members?.some(({ name, state }) => name === member.name && state !== "Removed") ?? false;
}

export function targetOf({ spec }: FilesystemLayout): Target | undefined {
  return spec.target && readTarget(spec.target);
}

/** The layout asks for the member to be deleted, with its data. */
export function isRemovalWanted({ spec }: FilesystemLayout): boolean {
  return spec.members !== undefined && spec.members.length > 0 && spec.members.every((m) => m.state === "Removed");
}

const MEMBER_NAME = /^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/;

/**
 * `staged`: the filesystem may be mounted here. The error, thrown by `refuse`, names what is wrong in the layout.
 */
function readMembers(
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
  const isTaken = wasTaken(layout, member, before);
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

/** By an emergency, here or on another node: there is no way back into being a spare, and the layout follows. */
function wasTaken(layout: FilesystemLayout, member: MemberSpec, before: SpanMember | undefined): boolean {
  const { name, state } = member;
  if (state !== "Spare") return false;
  return (
    reportedState(layout, name) === "Present" || (before?.taken === true && !isRefusedSince(layout, member, before))
  );
}

/**
 * Whether the member could not be added because of what its device carries, and its layout has said so since: then it is a spare that is
 * checked again. What the layout said before the member was taken does not count: the device had been wiped, and the layout may be behind.
 */
function isRefusedSince(layout: FilesystemLayout, member: MemberSpec, before: SpanMember): boolean {
  const { refused, carried } = knownAgainst(layout, member);
  if (refused === undefined) return false;
  return before.refused === undefined || (carried !== undefined && carried !== before.carried);
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
