// Which form of answer a client asks for, and which form its body has.
import { ApiError } from "./api-error.ts";

export const JSON_TYPE = "application/json";
export const YAML_TYPE = "application/yaml";

export type AnswerForm = "Object" | "Table" | "PartialObjectMetadata";

/** A media type in lower case without its parameters. */
export function bareMediaType(header: string | undefined): string {
  return (header ?? "").split(";")[0]?.trim().toLowerCase() ?? "";
}

/** The first form of the Accept header that can be given; throws 406 when there is none. */
export function negotiateForm(accept: string | undefined): AnswerForm {
  if (accept === undefined || accept.trim() === "") return "Object";
  for (const range of accept.split(",")) {
    const [type = "", ...parameters] = range.split(";").map((part) => part.trim());
    if (![JSON_TYPE, "application/*", "*/*"].includes(type)) continue;
    const form = formOf(parameters);
    if (form !== undefined) return form;
  }
  const message = `only the following media types are accepted: ${JSON_TYPE}, ${JSON_TYPE};as=Table;v=v1;g=meta.k8s.io`;
  throw new ApiError(406, "NotAcceptable", message);
}

function formOf(parameters: readonly string[]): AnswerForm | undefined {
  const values = new Map(parameters.map((parameter) => parameter.split("=") as [string, string]));
  const as = values.get("as");
  if (as === undefined) return "Object";
  if (values.get("g") !== "meta.k8s.io" || values.get("v") !== "v1") return undefined;
  if (as === "Table") return "Table";
  if (as === "PartialObjectMetadata" || as === "PartialObjectMetadataList") return "PartialObjectMetadata";
  return undefined;
}
