// JSON patch (RFC 6902). Pure: works on a copy. A failed test or a missing path refuses the whole patch.
import { ApiError, badRequest } from "../http/api-error.ts";
import { cloneJson, equalJson, isJsonObject, type JsonObject } from "../store/json.ts";

/** Operations of one patch, as many as kube-apiserver takes. */
const OPERATIONS_MAX = 10_000;

/** Throws 400 on a malformed patch, 422 when it cannot be applied. */
export function jsonPatch(target: JsonObject, patch: unknown): unknown {
  if (!Array.isArray(patch)) throw badRequest("a JSON patch is a list of operations");
  if (patch.length > OPERATIONS_MAX)
    throw new ApiError(
      413,
      "RequestEntityTooLarge",
      `a JSON patch has at most ${OPERATIONS_MAX} operations, not ${patch.length}`,
    );
  let document: unknown = cloneJson(target);
  for (const operation of patch) {
    if (!isJsonObject(operation)) throw badRequest("an operation of a JSON patch is an object");
    document = applyOperation(document, operation);
  }
  return document;
}

function applyOperation(document: unknown, operation: JsonObject): unknown {
  const path = pointer(operation["path"]);
  switch (operation["op"]) {
    case "add":
      return write(document, path, cloneJson(operation["value"]), "insert");
    case "replace":
      read(document, path);
      return write(document, path, cloneJson(operation["value"]), "replace");
    case "remove":
      read(document, path);
      return write(document, path, undefined, "remove");
    case "copy":
      return write(document, path, cloneJson(read(document, pointer(operation["from"]))), "insert");
    case "move": {
      const from = pointer(operation["from"]);
      const value = read(document, from);
      return write(write(document, from, undefined, "remove"), path, value, "insert");
    }
    case "test":
      if (!equalJson(read(document, path), operation["value"]))
        throw refused(`testing path ${operation["path"]} failed`);
      return document;
    default:
      throw badRequest(`a JSON patch has no operation "${String(operation["op"])}"`);
  }
}

function refused(message: string): ApiError {
  return new ApiError(422, "Invalid", `the server rejected our request due to an error in our request: ${message}`);
}

function pointer(source: unknown): string[] {
  if (typeof source !== "string" || (source !== "" && !source.startsWith("/")))
    throw badRequest(`a path of a JSON patch starts with "/", unlike ${JSON.stringify(source)}`);
  const path = source
    .split("/")
    .slice(1)
    .map((part) => part.replaceAll("~1", "/").replaceAll("~0", "~"));
  // A field of that name would be every object's of this process.
  if (path.includes("__proto__")) throw refused(`the path ${source} does not exist`);
  return path;
}

function read(document: unknown, path: readonly string[]): unknown {
  let value = document;
  for (const part of path) {
    value = Array.isArray(value) ? value[listIndex(part)] : fieldOf(value, part);
    if (value === undefined) throw refused(`the path /${path.join("/")} does not exist`);
  }
  return value;
}

function fieldOf(value: unknown, name: string): unknown {
  return isJsonObject(value) && Object.hasOwn(value, name) ? value[name] : undefined;
}

function listIndex(part: string): number {
  if (!/^(0|[1-9]\d*)$/.test(part)) throw refused(`"${part}" is not an index of a list`);
  return Number(part);
}

function write(
  document: unknown,
  path: readonly string[],
  value: unknown,
  mode: "insert" | "replace" | "remove",
): unknown {
  const last = path.at(-1);
  if (last === undefined) return value;
  const container = read(document, path.slice(0, -1));
  if (Array.isArray(container)) writeItem(container, last, value, mode);
  else if (!isJsonObject(container))
    throw refused(`the path /${path.join("/")} leads through a value that has no fields`);
  else if (mode === "remove") delete container[last];
  else container[last] = value;
  return document;
}

function writeItem(list: unknown[], part: string, value: unknown, mode: "insert" | "replace" | "remove"): void {
  const index = part === "-" && mode === "insert" ? list.length : listIndex(part);
  if (index > list.length) throw refused(`the index ${index} is past the end of a list of ${list.length}`);
  if (mode === "insert") list.splice(index, 0, value);
  else if (mode === "remove") list.splice(index, 1);
  else list[index] = value;
}
