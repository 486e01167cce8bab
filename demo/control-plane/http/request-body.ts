// The body of a request: bounded, then decoded as its media type says.
import type { IncomingMessage } from "node:http";
import { parse as parseYaml } from "yaml";
import { isJsonObject, type JsonObject } from "../store/json.ts";
import { ApiError, badRequest, unsupportedMediaType } from "./api-error.ts";
import { bareMediaType, JSON_TYPE, YAML_TYPE } from "./media-type.ts";

/** What kube-apiserver takes, too. */
export const BODY_LIMIT_BYTES = 3 * 1024 * 1024;

/** Throws 413 when the body is larger than the limit. */
export async function readBody(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  let lengthBytes = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    lengthBytes += chunk.length;
    if (lengthBytes > BODY_LIMIT_BYTES) throw bodyTooLarge();
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString("utf8");
}

function bodyTooLarge(): ApiError {
  const message = `Request entity too large: limit is ${BODY_LIMIT_BYTES} bytes`;
  return new ApiError(413, "RequestEntityTooLarge", message);
}

/** The object in a body of JSON or YAML; null is an empty one. Throws 400 when it is not an object, 415 for another media type. */
export function decodeObject(body: string, contentType: string | undefined): JsonObject {
  const type = bareMediaType(contentType);
  if (type === "" || type === JSON_TYPE) return objectOf(() => (JSON.parse(body) as unknown) ?? {});
  if (type === YAML_TYPE) return objectOf(() => parseYaml(body, { maxAliasCount: 100 }) as unknown);
  throw unsupportedMediaType(type, [JSON_TYPE, YAML_TYPE]);
}

/** The object of a server-side-apply patch, which is YAML and so may be JSON. */
export function decodeApplyPatch(body: string): JsonObject {
  return objectOf(() =>
    body.trimStart().startsWith("{") ? JSON.parse(body) : parseYaml(body, { maxAliasCount: 100 }),
  );
}

function objectOf(parse: () => unknown): JsonObject {
  let value: unknown;
  try {
    value = parse();
  } catch (error) {
    throw badRequest(`the body cannot be decoded: ${(error as Error).message}`);
  }
  if (!isJsonObject(value)) throw badRequest("the body cannot be decoded: it is not an object");
  return value;
}
