// The one error of storage, and the limits within which storage is waited for: not without end for what is stuck in the kernel, nor for a
// member's driver while another operation needs the filesystem more. What is waited for goes on; the next call about a member waits for the
// one before.
import { unlessAborted, withTimeLimit } from "../../platform/process/async/limited-wait.ts";

export type StorageErrorCode =
  | "SignatureFound" // mkfs refused: the device carries a signature
  | "AlreadyFormatted" // mkfs refused: a record says this volume was formatted, but no filesystem is there
  | "WrongFilesystem" // another fsid than recorded was found
  | "MembersMissing" // the filesystem has devices that no member provides
  | "WaitingForMember" // a member, or its driver, is not on this node yet
  | "MemberDriverFailed" // the driver of a member has refused
  | "DiskFull" // no room on the host for the member
  | "DeviceBusy" // still held by another process
  | "ReadOnly" // the filesystem takes no writes
  | "ShrinkOutcomeUnknown" // a shrink was interrupted, and which content is the last one is unknown
  | "Hung" // a command, or a reading of a mount, is stuck in the kernel
  | "NotPermitted" // the kernel refused for want of a capability
  | "CommandFailed";

/** The one error of this port. The message names the volume, the command or file, and what the user can do. */
export class StorageError extends Error {
  override name = "StorageError";
  readonly code: StorageErrorCode;
  /** The message without the code. */
  readonly said: string;

  constructor(code: StorageErrorCode, message: string, cause?: unknown) {
    super(`${code}: ${message}`, { cause });
    this.code = code;
    this.said = message;
  }
}

/** The result, or StorageError "Hung" after the limit; `task` says what is waited for. The work itself goes on. */
export function unlessHung<T>(work: Promise<T>, limitMs: number, task: string): Promise<T> {
  return withTimeLimit(work, limitMs, () => {
    throw new StorageError("Hung", `${task}: no answer after ${limitMs} ms; see dmesg on the node`);
  });
}

/** Throws WaitingForMember once the signal is fired. */
export function unlessStopped<T>(call: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (signal === undefined) return call;
  return unlessAborted(call, signal, (reason) => {
    throw new StorageError("WaitingForMember", `the driver of a member is not waited for: ${String(reason)}`);
  });
}
