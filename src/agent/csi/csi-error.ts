// What the agent's own errors mean to kubelet: gRPC codes as the CSI specification assigns them. Pure.
import { Refusal, type RefusalCode } from "../../csi/refusal.ts";
import { LayoutError } from "../gather/layout-record.ts";
import { StorageError, type StorageErrorCode } from "../storage/storage.ts";
import { LaneFullError } from "../volumes/volume-lanes.ts";

const CODE_OF_STORAGE: Readonly<Record<StorageErrorCode, RefusalCode>> = {
  SignatureFound: "FAILED_PRECONDITION",
  AlreadyFormatted: "FAILED_PRECONDITION",
  WrongFilesystem: "FAILED_PRECONDITION",
  MembersMissing: "FAILED_PRECONDITION",
  WaitingForMember: "ABORTED",
  MemberDriverFailed: "INTERNAL",
  DiskFull: "RESOURCE_EXHAUSTED",
  DeviceBusy: "ABORTED",
  ShrinkInDoubt: "FAILED_PRECONDITION",
  ReadOnly: "FAILED_PRECONDITION",
  Hung: "UNAVAILABLE",
  NotPermitted: "PERMISSION_DENIED",
  CommandFailed: "INTERNAL",
};

/** Undefined: an error that is not the agent's. */
export function refusalOfError(error: unknown): Refusal | undefined {
  if (error instanceof StorageError) return new Refusal(CODE_OF_STORAGE[error.code], error.message);
  if (error instanceof LayoutError) return new Refusal("FAILED_PRECONDITION", error.message);
  if (error instanceof LaneFullError) return new Refusal("ABORTED", error.message);
  return undefined;
}
