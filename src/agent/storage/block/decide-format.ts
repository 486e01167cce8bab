// Whether a member may be formatted: only one that carries nothing at all, for a volume that no record calls formatted. Pure;
// the one place where this is decided.
import type { FilesystemVolume } from "../storage.ts";
import type { StorageErrorCode } from "../storage-error.ts";
import type { MemberRecord } from "./member-record.ts";
import type { Signature } from "./probe-device.ts";

/** The volume, and the member as people know it. */
export interface FormatSubject extends Pick<FilesystemVolume, "handle" | "volumeUID" | "fsid" | "fsType"> {
  readonly member: string;
  /** What a person does about a member whose content is not wanted. */
  readonly remedy: string;
}

export interface FormatFacts {
  readonly record: Pick<MemberRecord, "volumeUID" | "fsid" | "fsType" | "state"> | undefined;
  readonly signatures: readonly Signature[];
  /** "holds 4Ki of unknown data": what else says that the member is not new; undefined where nothing does. */
  readonly unknownData: string | undefined;
}

export type FormatDecision =
  | { readonly kind: "format" }
  /** The filesystem is there; mkfs must not run. */
  | { readonly kind: "keep" }
  | { readonly kind: "refuse"; readonly code: StorageErrorCode; readonly message: string };

/**
 * Crash windows: a record "formatting" with our own filesystem means that mkfs ended and the crash came before "formatted": the filesystem
 * stays. With no signature mkfs had not got that far. Since "mounted" is recorded before the first mount, no process can have written data:
 * the member is formatted again. mkfs.btrfs and mke2fs write their signature last, so a signature of ours is a whole filesystem.
 */
export function decideFormat(volume: FormatSubject, { record, signatures, unknownData }: FormatFacts): FormatDecision {
  const stranger = recordOfAnother(volume, record);
  if (stranger !== undefined) return stranger;
  const foreign = signatures.find(({ type, uuid }) => type !== volume.fsType || uuid !== volume.fsid);
  if (foreign !== undefined)
    return refuse(
      record === undefined || record.state === "formatting" ? "SignatureFound" : "WrongFilesystem",
      `${describe(volume)} carries a ${foreign.type} signature (UUID ${foreign.uuid || "none"}) instead of ${volume.fsType} ` +
        `${volume.fsid}; it is left as it is. ${volume.remedy}`,
    );
  if (signatures.length > 0) return { kind: "keep" };
  if (record !== undefined && record.state !== "formatting")
    return refuse(
      "AlreadyFormatted",
      `${describe(volume)} was formatted before but carries no filesystem now; it is not formatted again. Restore it from a backup`,
    );
  if (record === undefined && unknownData !== undefined)
    return refuse(
      "SignatureFound",
      `${describe(volume)} ${unknownData} and no record says that it is new; it is left as it is`,
    );
  return { kind: "format" };
}

/** A refusal, where the record is there and is not this volume's. */
export function recordOfAnother(
  volume: FormatSubject,
  record: FormatFacts["record"],
): Extract<FormatDecision, { kind: "refuse" }> | undefined {
  if (record === undefined) return undefined;
  if (record.volumeUID === volume.volumeUID && record.fsid === volume.fsid && record.fsType === volume.fsType)
    return undefined;
  return refuse(
    "WrongFilesystem",
    `${describe(volume)} is recorded as ${record.fsType} ${record.fsid} of volume ${record.volumeUID}, not as ${volume.fsType} ` +
      `${volume.fsid} of ${volume.volumeUID}`,
  );
}

function refuse(code: StorageErrorCode, message: string): Extract<FormatDecision, { kind: "refuse" }> {
  return { kind: "refuse", code, message };
}

function describe({ member, handle }: FormatSubject): string {
  return `member ${member} of ${handle}`;
}
