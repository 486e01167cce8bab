// What every written object goes through, new or changed: it is read by the schema, defaulted, completed, and validated.
import type { ApiError } from "../http/api-error.ts";
import { badRequest, invalid, unknownFields } from "../http/api-error.ts";
import type { WriteRequest } from "../http/write-request.ts";
import { kindRules } from "../kinds/kind-rules.ts";
import { apiVersionOf, type ResourceKind } from "../kinds/resource-kind.ts";
import type { FieldError } from "../schema/field-errors.ts";
import { applyDefaults } from "../schema/schema-defaulting.ts";
import { pruneUnknownFields } from "../schema/schema-pruning.ts";
import { validateSchema } from "../schema/schema-validation.ts";
import { checkRules } from "../schema/validation-rules.ts";
import { asJsonObject, type JsonObject } from "./json.ts";
import { metadataErrors } from "./object-names.ts";

/** Whether the body came as the object itself or as a patch: strictness is worded differently. */
export type BodyForm = "object" | "patch";

/** Prunes and defaults an object, in place. Throws 400 (422 for a patch) on unknown fields under strict validation. */
export function readFields(request: WriteRequest, object: JsonObject, form: BodyForm): void {
  const { kind, fieldValidation } = request;
  checkKind(kind, object);
  const unknown = pruneUnknownFields(kind.schema, object);
  if (unknown.length > 0 && fieldValidation === "Strict") throw strictError(kind, unknown, form);
  if (fieldValidation === "Warn") request.warnings.push(...unknown.map((field) => `unknown field "${field}"`));
  applyDefaults(kind.schema, object);
}

function checkKind(kind: ResourceKind, object: JsonObject): void {
  const wanted = apiVersionOf(kind);
  if (kind.custom && !object["kind"]) throw badRequest(`Object 'Kind' is missing in the body; it must be ${kind.kind}`);
  object["kind"] ??= kind.kind;
  object["apiVersion"] ??= wanted;
  if (object["kind"] !== kind.kind) throw otherKind(kind, object);
  if (object["apiVersion"] !== wanted)
    throw badRequest(
      `the API version in the data (${object["apiVersion"]}) does not match the expected API version (${wanted})`,
    );
}

function otherKind(kind: ResourceKind, object: JsonObject): ApiError {
  const given = String(object["kind"]);
  if (!kind.custom)
    return badRequest(`${given} in version "${kind.version}" cannot be handled as a ${kind.kind}: no kind "${given}"`);
  const message = `Invalid value: ${JSON.stringify(given)}: must be ${kind.kind}`;
  const name = String(asJsonObject(object["metadata"])["name"] ?? "");
  return invalid({ ...kind, kind: given }, name, [{ field: "kind", reason: "FieldValueInvalid", message }]);
}

function strictError(kind: ResourceKind, unknown: readonly string[], form: BodyForm): ApiError {
  if (form === "object") return unknownFields(kind, unknown);
  const list = unknown.map((field) => `unknown field "${field}"`).join(", ");
  const message = `Invalid value: "object": strict decoding error: ${list}`;
  return invalid(kind, "", [{ field: "patch", reason: "FieldValueInvalid", message }]);
}

/** Errors of the schema after which kube-apiserver asks no rule. */
const BLOCKS_RULES: ReadonlySet<string> = new Set([
  "FieldValueNotSupported",
  "FieldValueRequired",
  "FieldValueTooLong",
  "FieldValueTooMany",
  "FieldValueTypeInvalid",
]);
const RULES_NOT_CHECKED: FieldError = {
  field: "<nil>",
  reason: "FieldValueInvalid",
  message:
    "Invalid value: null: some validation rules were not checked because the object was invalid; " +
    "correct the existing errors to complete validation",
};

/** Throws 422 with all that is wrong with the object; `before` is the stored one, undefined on creation. */
export function validateObject(
  request: WriteRequest,
  object: JsonObject,
  before: JsonObject | undefined,
  more: readonly FieldError[] = [],
): void {
  const { kind } = request;
  const name = String(asJsonObject(object["metadata"])["name"] ?? "");
  const shape = validateSchema(kind.schema, object, "");
  if (!kind.custom) refuseUndecodable(kind, shape);
  if (shape.some(({ reason }) => reason === "FieldValueTypeInvalid")) throw invalid(kind, name, [...more, ...shape]);
  const errors = [...more, ...metadataErrors(asJsonObject(object["metadata"])), ...shape];
  // A rule may rely on what the schema promises.
  if (!shape.some(({ reason }) => BLOCKS_RULES.has(reason)))
    errors.push(...checkRules(kind.rules, kind.schema, object, before, ""));
  else if (kind.rules.size > 0) errors.push(RULES_NOT_CHECKED);
  if (shape.length === 0) errors.push(...(kindRules(kind).errors?.(object, before) ?? []));
  if (errors.length > 0) throw invalid(kind, name, errors);
}

// A built-in kind has a Go type: a value of the wrong type cannot even be read into it.
function refuseUndecodable(kind: ResourceKind, errors: readonly FieldError[]): void {
  const mistyped = errors.find(({ reason }) => reason === "FieldValueTypeInvalid");
  if (mistyped)
    throw badRequest(
      `${kind.kind} in version "${kind.version}" cannot be handled as a ${kind.kind}: ${mistyped.field}: ${mistyped.message}`,
    );
}
