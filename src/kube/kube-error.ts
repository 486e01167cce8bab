// The one error of the API-server boundary, with the closed set of reasons that callers may act on.

/** metav1.StatusReason, as far as we act on it; "Unreachable" is ours: no answer of the server came (none at all, or a gateway's 502 or 504), a write may or may not have happened. */
export type KubeErrorReason =
  | "AlreadyExists"
  | "BadRequest"
  | "Conflict"
  | "Expired"
  | "Forbidden"
  | "Internal"
  | "Invalid"
  | "NotFound"
  | "TooManyRequests"
  | "Unauthorized"
  | "Unreachable";

export class KubeError extends Error {
  override name = "KubeError";
  readonly reason: KubeErrorReason;
  /** HTTP status; 0 when no answer came, or nothing was sent. */
  readonly status: number;
  /** What the server asked for in Retry-After, milliseconds. */
  readonly retryAfterMs: number | undefined;

  constructor(
    reason: KubeErrorReason,
    status: number,
    message: string,
    options: { cause?: unknown; retryAfterMs?: number } = {},
  ) {
    super(`${reason}: ${message}`, { cause: options.cause });
    this.reason = reason;
    this.status = status;
    this.retryAfterMs = options.retryAfterMs;
  }
}

export function isKubeError(error: unknown, reason: KubeErrorReason): boolean {
  return error instanceof KubeError && error.reason === reason;
}
