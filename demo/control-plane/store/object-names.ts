// What names, labels and annotations may look like, with the messages of the API machinery.
import type { FieldError } from "../schema/field-errors.ts";
import { asJsonObject, type JsonObject } from "./json.ts";

const SUBDOMAIN = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/;
const LABEL = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/;
const KEY_NAME = /^([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$/;
const SUBDOMAIN_CHARACTERS_MAX = 253;
const LABEL_CHARACTERS_MAX = 63;
const ANNOTATION_BYTES_MAX = 256 * 1024;

const SUBDOMAIN_MESSAGE =
  "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const LABEL_MESSAGE =
  "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";

/** What is wrong with the name of an object of this kind; namespaces are DNS labels, all others subdomains. */
export function nameErrors(kind: string, name: string): FieldError[] {
  const isLabel = kind === "Namespace";
  const most = isLabel ? LABEL_CHARACTERS_MAX : SUBDOMAIN_CHARACTERS_MAX;
  if (name === "") return [required("metadata.name", "name or generateName is required")];
  if (name.length > most) return [wrong("metadata.name", name, `must be no more than ${most} bytes`)];
  if (!(isLabel ? LABEL : SUBDOMAIN).test(name))
    return [wrong("metadata.name", name, isLabel ? LABEL_MESSAGE : SUBDOMAIN_MESSAGE)];
  return [];
}

/** What is wrong with the labels, annotations and owner references of a metadata that has the right types. */
export function metadataErrors(metadata: JsonObject): FieldError[] {
  const errors: FieldError[] = [];
  for (const [key, value] of Object.entries(asJsonObject(metadata["labels"]))) {
    if (!isQualifiedKey(key)) errors.push(wrong("metadata.labels", key, keyMessage(key)));
    if (!isLabelValue(String(value))) errors.push(wrong("metadata.labels", String(value), valueMessage()));
  }
  let annotationBytes = 0;
  for (const [key, value] of Object.entries(asJsonObject(metadata["annotations"]))) {
    if (!isQualifiedKey(key.toLowerCase())) errors.push(wrong("metadata.annotations", key, keyMessage(key)));
    annotationBytes += Buffer.byteLength(key) + Buffer.byteLength(String(value));
  }
  if (annotationBytes > ANNOTATION_BYTES_MAX)
    errors.push({
      field: "metadata.annotations",
      reason: "FieldValueTooLong",
      message: `Too long: may not be more than ${ANNOTATION_BYTES_MAX} bytes`,
    });
  return [...errors, ...ownerErrors(metadata["ownerReferences"])];
}

function ownerErrors(references: unknown): FieldError[] {
  const list = Array.isArray(references) ? (references as JsonObject[]) : [];
  const errors = list.flatMap((reference, index) =>
    ["apiVersion", "kind", "name", "uid"]
      .filter((field) => !reference[field])
      .map((field) => wrong(`metadata.ownerReferences[${index}].${field}`, "", "must not be empty")),
  );
  if (list.filter((reference) => reference["controller"] === true).length > 1)
    errors.push(wrong("metadata.ownerReferences", "object", "Only one reference can have Controller set to true."));
  return errors;
}

function isQualifiedKey(key: string): boolean {
  const slash = key.indexOf("/");
  const prefix = slash < 0 ? undefined : key.slice(0, slash);
  const name = key.slice(slash + 1);
  if (prefix !== undefined && (prefix.length > SUBDOMAIN_CHARACTERS_MAX || !SUBDOMAIN.test(prefix))) return false;
  return name.length <= LABEL_CHARACTERS_MAX && KEY_NAME.test(name);
}

function isLabelValue(value: string): boolean {
  return value === "" || (value.length <= LABEL_CHARACTERS_MAX && KEY_NAME.test(value));
}

function keyMessage(key: string): string {
  return `name part of "${key}" must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character, at most ${LABEL_CHARACTERS_MAX} of them`;
}

function valueMessage(): string {
  return `a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character, at most ${LABEL_CHARACTERS_MAX} of them`;
}

function wrong(field: string, value: string, message: string): FieldError {
  return { field, reason: "FieldValueInvalid", message: `Invalid value: ${JSON.stringify(value)}: ${message}` };
}

function required(field: string, message: string): FieldError {
  return { field, reason: "FieldValueRequired", message: `Required value: ${message}` };
}
