// A call of CSI or lvmd answered with "no" or "not yet": a gRPC code and a message, thrown. The only place where it becomes a gRPC
// status is unary-method.ts.

export const REFUSAL_CODES = [
  "INVALID_ARGUMENT",
  "OUT_OF_RANGE",
  "ALREADY_EXISTS",
  "NOT_FOUND",
  "FAILED_PRECONDITION",
  "PERMISSION_DENIED",
  "RESOURCE_EXHAUSTED",
  /** Another call for the same volume, or its own work, is still under way: the caller repeats it. */
  "ABORTED",
  "UNAVAILABLE",
  /** It took too long; whether it was done is not known. */
  "DEADLINE_EXCEEDED",
  "UNIMPLEMENTED",
  "INTERNAL",
] as const;
export type RefusalCode = (typeof REFUSAL_CODES)[number];

/** The message says what was refused, with numbers and units, and what the caller can change. */
export class Refusal extends Error {
  readonly code: RefusalCode;

  constructor(code: RefusalCode, message: string) {
    super(message);
    this.name = "Refusal";
    this.code = code;
  }
}

export function invalidArgument(message: string): Refusal {
  return new Refusal("INVALID_ARGUMENT", message);
}
