// The port through which operations read mounted filesystems. A filesystem that does not answer blocks only the operation that asks it,
// never the main thread: statfs, stat and open of a path on a mount wait in the kernel for as long as its driver does not answer.
//
// Read elsewhere, as no mount: /proc; sysfs of btrfs, which shows numbers in memory (fs/btrfs/sysfs.c); superblocks of block devices, since
// nothing is cut or grown before they are read; the directory of member files, on the node's own disk.

import { copiesOf } from "../../../contracts/formulas/data-profiles.ts";
import type { FsType } from "../../../contracts/kinds/filesystem-layout.ts";
import type { Reading } from "../../../contracts/reading.ts";

export interface FilesystemReading extends Reading {
  /** Data written and reserved: what statfs shows as used plus what writers have announced. */
  readonly dataBytes: number;
  /** The kernel moves data within the filesystem (a resize, a balance), so that dataBytes grows without any writer. */
  readonly movesData: boolean;
}

export interface ReadableMount {
  readonly mountPath: string;
  /** "foreign": another driver's, whatever it is, read by statfs alone. */
  readonly fsType: FsType | "foreign";
  readonly fsid: string;
}

/**
 * Both methods reject with StorageError. Hung: the mount has not answered within the reader's limit; the message names it. A mount that has
 * not answered an earlier caller is not asked again until it does. CommandFailed: it answers with an error, or is no longer mounted.
 */
export interface MountReader {
  /** For the filesystem that is mounted there now, and for no other that is mounted there later. */
  open(mount: ReadableMount): Promise<OpenMount>;
}

export interface OpenMount {
  /** Taken when it was opened: a caller that needs one reading saves a round trip to the thread. */
  readonly first: FilesystemReading;
  /** One reading, taken after this was called. Of several that are asked for at a time each is taken for itself. */
  read(): Promise<FilesystemReading>;
  /** Idempotent, and waits for nothing. An open mount does not keep the filesystem from being unmounted. */
  close(): void;
}

/** One reading, with all that it opened closed. */
export async function readOnce(mounts: MountReader, mount: ReadableMount): Promise<FilesystemReading> {
  const opened = await mounts.open(mount);
  opened.close();
  return opened.first;
}

/** The place of a thread of the mount reader while it is at a question; it has one at a time. */
export const MOUNT_PLACE = 1;

/** A mount as the mount reader has opened it; each of its threads opens its own files for it. */
export interface AskedMount extends ReadableMount {
  /** Never given twice. */
  readonly number: number;
  /** Of the filesystem that was there when it was opened first; undefined then. */
  readonly deviceNumber: number | undefined;
}

export type ToMountThread =
  | { readonly type: "open" | "read"; readonly mount: AskedMount }
  /** Gets no answer. */
  | { readonly type: "close"; readonly number: number };

export type FromMountThread =
  | { readonly type: "opened"; readonly deviceNumber: number; readonly reading: FilesystemReading }
  | { readonly type: "reading"; readonly reading: FilesystemReading }
  | { readonly type: "failed"; readonly message: string };

/** btrfs counts in them (kernel, fs/btrfs/super.c: btrfs_statfs). */
const BLOCK_BYTES = 4096;

/**
 * What a filesystem's devices have together: with copies of data that is more than statfs shows. A few sectors less where data has copies,
 * which statfs has no half of.
 */
export function deviceBytesOf({ capacityBytes, dataProfiles }: Reading): number {
  return capacityBytes * copiesOf(dataProfiles);
}

/** Whether the filesystem uses so many bytes of its devices. */
export function hasGrownTo({ capacityBytes, dataProfiles }: Reading, deviceBytes: number): boolean {
  return capacityBytes >= wholeBlocks(deviceBytes / copiesOf(dataProfiles));
}

function wholeBlocks(bytes: number): number {
  return Math.floor(bytes / BLOCK_BYTES) * BLOCK_BYTES;
}
