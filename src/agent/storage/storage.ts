// The port between the agent's process (what should be, who may write, what is reported) and storage (how a filesystem on
// its member is made, mounted, grown and shrunk). Two adapters: real loop devices, and the simulated disk of machines
// without root. Every method is idempotent: after a crash at any line the same call finishes the work.
import type { FsType } from "../../api/filesystem-layout.ts";

/** What identifies one volume on this node; everything else is found on the disk. */
export interface Volume {
  readonly handle: string;
  readonly volumeUID: string;
  readonly fsid: string;
  readonly fsType: FsType;
  /** File name in the member directory; checked to contain no separator. */
  readonly memberFile: string;
}

/** A staged volume. */
export interface MountedVolume extends Volume {
  /** The member device, e.g. /dev/loop3; on the simulated disk the member file. */
  readonly device: string;
  readonly mountPath: string;
}

/** One reading; byte figures as design defines them: on btrfs available excludes what writers have reserved. */
export interface Reading {
  readonly sampledAtMs: number;
  readonly capacityBytes: number;
  readonly availableBytes: number;
  /** 0: unlimited. */
  readonly inodesTotal: number;
  readonly inodesUsed: number;
}

export type StorageErrorCode =
  | "SignatureFound" // mkfs refused: the device carries a signature
  | "AlreadyFormatted" // mkfs refused: a record says this volume was formatted, but no filesystem is there
  | "WrongFilesystem" // another fsid than recorded was found
  | "DiskFull" // no room on the host for the member
  | "DeviceBusy" // still held by somebody
  | "ReadOnly" // the kernel has forced the filesystem read-only
  | "Hung" // a command is stuck in the kernel
  | "NotPermitted" // the kernel refused for want of a capability
  | "CommandFailed";

/** The one error of this port. The message names the volume, the command or file, and what the user can do. */
export class StorageError extends Error {
  override name = "StorageError";
  readonly code: StorageErrorCode;

  constructor(code: StorageErrorCode, message: string, cause?: unknown) {
    super(`${code}: ${message}`, { cause });
    this.code = code;
  }
}

export interface ShrinkControl {
  /** Bytes that must stay available at every moment: max(minAvailable, 256 MiB, 2 s of the writer's peak rate). */
  readonly reserveBytes: () => number;
  /** Aborting it cancels the running step at once (an extend pre-empts, the volume is unstaged). */
  readonly signal: AbortSignal;
  /** After each finished step, with the size reached. */
  readonly onStep: (sizeBytes: number) => void;
}

export type ShrinkResult =
  | { readonly outcome: "Succeeded"; readonly sizeBytes: number }
  /** A writer came near the reserve, or the signal fired; the size reached stays. */
  | { readonly outcome: "Cancelled"; readonly sizeBytes: number; readonly message: string }
  /** The filesystem cannot safely give more; floorBytes is its own figure. */
  | {
      readonly outcome: "FloorReached";
      readonly sizeBytes: number;
      readonly floorBytes: number;
      readonly message: string;
    };

export interface Storage {
  /** "real" or "simulated": shown to people, never branched on. */
  readonly kind: "real" | "simulated";
  /**
   * Makes the member if it never existed (sizeBytes), attaches it, formats it only if it carries no signature and no record
   * says it was formatted, mounts it at mountPath. A second call on a mounted volume returns the same.
   */
  stage(volume: Volume, sizeBytes: number, mountPath: string): Promise<MountedVolume>;
  /** Cancels what runs, unmounts plainly (never lazily), detaches; done when nothing holds the device any more. */
  unstage(volume: Volume, mountPath: string): Promise<void>;
  /** The volume if this node has it mounted at mountPath now, after a restart. */
  find(volume: Volume, mountPath: string): Promise<MountedVolume | undefined>;
  /** Where the kernel has this volume's member mounted, first of all; undefined when nowhere, or where nobody can tell. */
  mountPath(volume: Volume): Promise<string | undefined>;
  /** Size of the member device, bytes; undefined when the member does not exist on this node. At once, or within its own limit. */
  sizeBytes(volume: Volume): Promise<number | undefined>;
  /** Grows member and filesystem to sizeBytes; never shrinks. Returns the size reached, read back. */
  extend(volume: MountedVolume, sizeBytes: number): Promise<number>;
  /** The protocol of docs/architecture/shrink.md: in steps, watched, never under the filesystem's own floor. */
  shrink(volume: MountedVolume, sizeBytes: number, control: ShrinkControl): Promise<ShrinkResult>;
  /**
   * After a restart in mid-operation, or an operation that failed: waits for or cancels what a dead agent's commands still do in the kernel, and makes
   * member and filesystem agree (the member never smaller than the filesystem). Returns the size.
   */
  recover(volume: MountedVolume): Promise<number>;
  /** Gives the filesystem's unused blocks back to the host. Returns the bytes trimmed. */
  trim(volume: MountedVolume): Promise<number>;
  /** One reading now, after making pending deletions and writes visible (syncfs). */
  freshReading(volume: MountedVolume): Promise<Reading>;
  /** Removes the member and its record. Refused with DeviceBusy while mounted anywhere. */
  remove(volume: Volume): Promise<void>;
  /** Free bytes where members are made. At once, or within its own limit. */
  freeBytes(): Promise<number>;
}
