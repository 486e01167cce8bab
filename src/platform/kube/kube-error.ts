// The one error of the API-server boundary, with the closed set of reasons that callers may act on, and how an answer becomes one.

import { shortened } from "../../contracts/printable.ts";

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

// What the API server's refusals mean: metav1.Status and HTTP status to KubeError. Pure.

/** metav1.Status, as far as it is read. */
export interface ApiStatus {
  readonly kind: "Status";
  readonly code?: number;
  readonly reason?: string;
  readonly message?: string;
  readonly details?: { readonly name?: string; readonly retryAfterSeconds?: number };
}

const MESSAGE_LIMIT_CHARACTERS = 2000;

const REASON_OF_STATUS: Readonly<Record<number, KubeErrorReason>> = {
  401: "Unauthorized",
  403: "Forbidden",
  404: "NotFound",
  409: "Conflict",
  410: "Expired",
  422: "Invalid",
  429: "TooManyRequests",
  // A gateway that got no answer in time: whether a write happened is as unknown as after a lost connection.
  502: "Unreachable",
  504: "Unreachable",
};

/** The Status in an answer's body, or undefined when it is something else ("404 page not found" is plain text). */
export function parseStatus(text: string): ApiStatus | undefined {
  try {
    const value = JSON.parse(text) as { kind?: unknown } | null;
    return value?.kind === "Status" ? (value as ApiStatus) : undefined;
  } catch {
    return undefined;
  }
}

/** The error for a refused request; `subject` says what was tried, on which object. */
export function errorOfStatus(
  subject: string,
  httpStatus: number,
  status: ApiStatus | undefined,
  body: string,
  retryAfter: string | undefined,
): KubeError {
  const said = typeof status?.message === "string" ? status.message : body.trim();
  const message = shortened(said, MESSAGE_LIMIT_CHARACTERS);
  const afterMs = retryAfterMs(retryAfter, status);
  const options = afterMs === undefined ? {} : { retryAfterMs: afterMs };
  return new KubeError(
    reasonOf(httpStatus, status),
    httpStatus,
    `${subject}: ${message} (HTTP ${httpStatus})`,
    options,
  );
}

function reasonOf(httpStatus: number, status: ApiStatus | undefined): KubeErrorReason {
  if (httpStatus === 409 && status?.reason === "AlreadyExists") return "AlreadyExists";
  return REASON_OF_STATUS[httpStatus] ?? (httpStatus >= 500 ? "Internal" : "BadRequest");
}

function retryAfterMs(header: string | undefined, status: ApiStatus | undefined): number | undefined {
  const seconds = header === undefined ? status?.details?.retryAfterSeconds : Number(header);
  return typeof seconds === "number" && Number.isFinite(seconds) && seconds >= 0 ? seconds * 1000 : undefined;
}
