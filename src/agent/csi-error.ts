// What kubelet is told when a request is refused or fails: gRPC status codes as the CSI specification assigns them. Errors
// are logged here, once.
import { type handleUnaryCall, status } from "@grpc/grpc-js";
import { KubeError } from "../kube/kube-error.ts";
import type { Logger } from "../process/log.ts";
import { PathError } from "./kubelet-path.ts";
import { LayoutError } from "./layout-record.ts";
import { StorageError, type StorageErrorCode } from "./storage/storage.ts";
import { LaneFullError } from "./volume-lanes.ts";

/** A refusal that the service itself decided on. */
export class CsiError extends Error {
  override name = "CsiError";
  readonly code: status;

  constructor(code: status, message: string) {
    super(message);
    this.code = code;
  }
}

const STORAGE_STATUS: Readonly<Record<StorageErrorCode, status>> = {
  SignatureFound: status.FAILED_PRECONDITION,
  AlreadyFormatted: status.FAILED_PRECONDITION,
  WrongFilesystem: status.FAILED_PRECONDITION,
  DiskFull: status.RESOURCE_EXHAUSTED,
  DeviceBusy: status.ABORTED,
  ReadOnly: status.FAILED_PRECONDITION,
  Hung: status.UNAVAILABLE,
  NotPermitted: status.PERMISSION_DENIED,
  CommandFailed: status.INTERNAL,
};

export function statusOf(error: unknown): status {
  if (error instanceof CsiError) return error.code;
  if (error instanceof StorageError) return STORAGE_STATUS[error.code];
  if (error instanceof PathError) return status.INVALID_ARGUMENT;
  if (error instanceof LayoutError) return status.FAILED_PRECONDITION;
  if (error instanceof LaneFullError) return status.ABORTED;
  if (error instanceof KubeError) return status.UNAVAILABLE;
  return status.INTERNAL;
}

/** A gRPC method from a function; `method` names it in the log. */
export function unary<Request, Response>(
  method: string,
  log: Logger,
  answer: (request: Request) => Promise<Response>,
): handleUnaryCall<Request, Response> {
  return (call, callback) => {
    answer(call.request).then(
      (response) => callback(null, response),
      (error: unknown) => {
        log.warn({ method, code: status[statusOf(error)], err: error }, `${method} refused or failed`);
        callback({ code: statusOf(error), details: error instanceof Error ? error.message : String(error) });
      },
    );
  };
}
