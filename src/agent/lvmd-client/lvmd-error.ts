// What lvmd answers when it does not do what it was asked: its gRPC status, with its own and LVM's words.
import { type ServiceError, status } from "@grpc/grpc-js";

/** The one error of the calls to lvmd. The message names the call, what it was about, and what was said. */
export class LvmdError extends Error {
  override name = "LvmdError";
  readonly code: status;
  /** In lvmd's and LVM's words alone. */
  readonly said: string;

  constructor(code: status, said: string, task: string, cause?: unknown) {
    super(`${task}: lvmd answered ${status[code]}: ${said}`, { cause });
    this.code = code;
    this.said = said;
  }
}

/** Whether nobody can tell what became of the call: it may still be carried out, or has been. */
const UNANSWERED: readonly status[] = [status.UNAVAILABLE, status.DEADLINE_EXCEEDED, status.CANCELLED, status.UNKNOWN];

export function isUnanswered({ code }: LvmdError): boolean {
  return UNANSWERED.includes(code);
}

export function lvmdErrorOf(error: unknown, task: string): LvmdError {
  const { code, details } = error as Partial<ServiceError>;
  return new LvmdError(code ?? status.UNKNOWN, details ?? String(error), task, error);
}
