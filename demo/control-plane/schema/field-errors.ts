// Errors of single fields, worded as kube-apiserver words them.
import { equalJson } from "../store/json.ts";

/** One invalid field, worded as field.Error of the API machinery: reason, then what it says after the path. */
export interface FieldError {
  readonly field: string;
  readonly reason: string;
  readonly message: string;
}

export function required(field: string, detail = ""): FieldError {
  return {
    field,
    reason: "FieldValueRequired",
    message: detail === "" ? "Required value" : `Required value: ${detail}`,
  };
}

export function invalidValue(field: string, value: unknown, why: string): FieldError {
  return { field, reason: "FieldValueInvalid", message: `Invalid value: ${JSON.stringify(value ?? null)}: ${why}` };
}

export function forbiddenField(field: string, why: string): FieldError {
  return { field, reason: "FieldValueForbidden", message: `Forbidden: ${why}` };
}

export function unsupported(field: string, value: unknown, values: readonly string[]): FieldError {
  const supported = values.map((each) => JSON.stringify(each)).join(", ");
  const message = `Unsupported value: ${JSON.stringify(value ?? null)}: supported values: ${supported}`;
  return { field, reason: "FieldValueNotSupported", message };
}

/** None where the value is as it was. */
export function changedErrors(field: string, value: unknown, before: unknown): FieldError[] {
  return equalJson(value, before) ? [] : [invalidValue(field, value, "field is immutable")];
}
