// What the API server's refusals mean: metav1.Status and HTTP status to KubeError. Pure.
import { KubeError, type KubeErrorReason } from "../kube-error.ts";

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
  const message = said.slice(0, MESSAGE_LIMIT_CHARACTERS);
  return new KubeError(reasonOf(httpStatus, status), httpStatus, `${subject}: ${message} (HTTP ${httpStatus})`, {
    retryAfterMs: retryAfterMs(retryAfter, status),
  });
}

function reasonOf(httpStatus: number, status: ApiStatus | undefined): KubeErrorReason {
  if (httpStatus === 409 && status?.reason === "AlreadyExists") return "AlreadyExists";
  return REASON_OF_STATUS[httpStatus] ?? (httpStatus >= 500 ? "Internal" : "BadRequest");
}

function retryAfterMs(header: string | undefined, status: ApiStatus | undefined): number | undefined {
  const seconds = header === undefined ? status?.details?.retryAfterSeconds : Number(header);
  return typeof seconds === "number" && Number.isFinite(seconds) && seconds >= 0 ? seconds * 1000 : undefined;
}
