// Reading a FilesystemLayout as this node's agent: pure, strict, and nothing from the API becomes a path unchecked.
import { FILE_NAME, type FilesystemLayout, type MemberSpec } from "../../api/filesystem-layout.ts";
import { volumeUIDOf } from "../../api/identity.ts";
import { parseQuantity } from "../../units/quantity.ts";
import { acceptedGrant } from "../decide/decide-emergency.ts";
import type { TargetFacts } from "../decide/decide-operation.ts";
import { readMembers } from "../member-drivers/read-members.ts";
import type { SpanMember } from "../member-drivers/span-member.ts";
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

export function targetOf({ spec }: FilesystemLayout): TargetFacts | undefined {
  if (spec.target === undefined) return undefined;
  const { size, from, epoch, decidedAt, notAfter } = spec.target;
  return { sizeBytes: parseQuantity(size), fromBytes: parseQuantity(from), epoch, decidedAt, notAfter };
}

/** The layout asks for the member to be deleted, with its data. */
export function isRemovalWanted({ spec }: FilesystemLayout): boolean {
  return spec.members !== undefined && spec.members.length > 0 && spec.members.every((m) => m.state === "Removed");
}
