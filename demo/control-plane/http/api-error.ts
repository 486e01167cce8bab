// What the API answers when it says no: metav1.Status with the codes, reasons and wording that Kubernetes clients act on.

import { type ResourceKind, resourceName } from "../kinds/resource-kind.ts";
import type { FieldError } from "../schema/field-errors.ts";
import type { JsonObject } from "../store/json.ts";

export interface StatusCause {
  reason: string;
  message: string;
  field?: string;
}

export interface StatusDetails {
  name?: string;
  group?: string;
  kind?: string;
  uid?: string;
  causes?: StatusCause[];
  retryAfterSeconds?: number;
}

/** A refused request; the HTTP layer answers it as a Status. */
export class ApiError extends Error {
  override name = "ApiError";
  readonly code: number;
  readonly reason: string;
  readonly details: StatusDetails;

  constructor(code: number, reason: string, message: string, details: StatusDetails = {}) {
    super(message);
    this.code = code;
    this.reason = reason;
    this.details = details;
  }

  toStatus(): JsonObject {
    const { code, reason, message, details } = this;
    return {
      kind: "Status",
      apiVersion: "v1",
      metadata: {},
      status: "Failure",
      message,
      ...(reason === "" ? {} : { reason }),
      ...(Object.keys(details).length === 0 ? {} : { details }),
      code,
    };
  }
}

/** The Status of a finished deletion. */
export function successStatus(kind: ResourceKind, name: string, uid: string): JsonObject {
  const details = { name, ...groupDetail(kind), kind: kind.plural, uid };
  return { kind: "Status", apiVersion: "v1", metadata: {}, status: "Success", details };
}

function groupDetail(kind: ResourceKind): StatusDetails {
  return kind.group === "" ? {} : { group: kind.group };
}

function resourceDetails(kind: ResourceKind, name: string): StatusDetails {
  return { name, ...groupDetail(kind), kind: kind.plural };
}

export function notFound(kind: ResourceKind, name: string): ApiError {
  return new ApiError(404, "NotFound", `${resourceName(kind)} "${name}" not found`, resourceDetails(kind, name));
}

export function unknownPath(): ApiError {
  return new ApiError(404, "NotFound", "the server could not find the requested resource");
}

export function alreadyExists(kind: ResourceKind, name: string): ApiError {
  const message = `${resourceName(kind)} "${name}" already exists`;
  return new ApiError(409, "AlreadyExists", message, resourceDetails(kind, name));
}

export function conflict(kind: ResourceKind, name: string, why: string, causes?: StatusCause[]): ApiError {
  const message = `Operation cannot be fulfilled on ${resourceName(kind)} "${name}": ${why}`;
  return new ApiError(409, "Conflict", message, { ...resourceDetails(kind, name), ...(causes ? { causes } : {}) });
}

export function modifiedConflict(kind: ResourceKind, name: string): ApiError {
  const why = "the object has been modified; please apply your changes to the latest version and try again";
  return conflict(kind, name, why);
}

export function forbidden(kind: ResourceKind, name: string, why: string, causes?: StatusCause[]): ApiError {
  const message = `${resourceName(kind)} "${name}" is forbidden: ${why}`;
  return new ApiError(403, "Forbidden", message, { ...resourceDetails(kind, name), ...(causes ? { causes } : {}) });
}

/** A PUT or POST with fields that the schema does not know, under strict validation. */
export function unknownFields(kind: ResourceKind, fields: readonly string[]): ApiError {
  const why = fields.map((field) => `unknown field "${field}"`).join(", ");
  return badRequest(
    `${kind.kind} in version "${kind.version}" cannot be handled as a ${kind.kind}: strict decoding error: ${why}`,
  );
}

export function badRequest(message: string): ApiError {
  return new ApiError(400, "BadRequest", message);
}

/** 422: a server-side apply that names no field manager. */
export function applyWithoutManager(): ApiError {
  const message = "Required value: is required for apply patch";
  const causes = [{ reason: "FieldValueRequired", message, field: "fieldManager" }];
  const details = { group: "meta.k8s.io", kind: "PatchOptions", causes };
  const subject = 'PatchOptions.meta.k8s.io "" is invalid';
  return new ApiError(422, "Invalid", `${subject}: fieldManager: ${message}`, details);
}

export function expired(message: string): ApiError {
  return new ApiError(410, "Expired", message);
}

export function methodNotAllowed(): ApiError {
  return new ApiError(405, "MethodNotAllowed", "the server does not allow this method on the requested resource");
}

export function unsupportedMediaType(given: string, accepted: readonly string[]): ApiError {
  const hint = given.includes("protobuf") ? "; use kubectl apply -f instead" : "";
  const message = `the body of the request was in an unknown format - accepted media types include: ${accepted.join(", ")} (got "${given}"${hint})`;
  return new ApiError(415, "UnsupportedMediaType", message);
}

/** 422: all the object's invalid fields at once. */
export function invalid(kind: ResourceKind, name: string, errors: readonly FieldError[]): ApiError {
  const lines = errors.map((error) => `${error.field}: ${error.message}`);
  const list = lines.length === 1 ? lines[0] : `[${lines.join(", ")}]`;
  const subject = kind.group === "" ? kind.kind : `${kind.kind}.${kind.group}`;
  const causes = errors.map(({ reason, message, field }) => ({ reason, message, field }));
  const details = { name, ...groupDetail(kind), kind: kind.kind, causes };
  return new ApiError(422, "Invalid", `${subject} "${name}" is invalid: ${list}`, details);
}
