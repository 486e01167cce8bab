// Makes the stored form of an object that is created: identity, first generation, no status of its own.
import { randomBytes, randomUUID } from "node:crypto";
import { badRequest } from "../http/api-error.ts";
import type { WriteRequest } from "../http/write-request.ts";
import { kindRules } from "../kinds/kind-rules.ts";
import { applyDefaults } from "../schema/schema-defaulting.ts";
import { asJsonObject, type JsonObject } from "./json.ts";
import { type BodyForm, readFields, validateObject } from "./object-admission.ts";
import { nameErrors } from "./object-names.ts";
import type { StoredObject } from "./stored-object.ts";

const SUFFIX_CHARACTERS = "bcdfghjklmnpqrstvwxz2456789";
const SUFFIX_LENGTH = 5;
const GENERATED_PREFIX_MAX = 63 - SUFFIX_LENGTH;

/** The object as it will be stored, without managedFields. It takes the input over. Throws 400 or 422. */
export function newObject(request: WriteRequest, input: JsonObject, now: string, form: BodyForm): StoredObject {
  const { kind } = request;
  readFields(request, input, form);
  // A node's status is the one that comes with its creation: kubelet registers with it.
  if (kind.hasStatus && kind.kind !== "Node") {
    delete input["status"];
    applyDefaults(kind.schema, input);
  }
  input["metadata"] = newMetadata(request, asJsonObject(input["metadata"]), now);
  kindRules(kind).complete?.(input, now);
  const { name } = input["metadata"] as { name: string };
  validateObject(request, input, undefined, nameErrors(kind.kind, name));
  return inOrder(input) as StoredObject;
}

function newMetadata(request: WriteRequest, given: JsonObject, now: string): JsonObject {
  const { kind, address } = request;
  const { deletionTimestamp: _time, deletionGracePeriodSeconds: _grace, generation: _generation, ...rest } = given;
  if (given["resourceVersion"]) throw badRequest("resourceVersion should not be set on objects to be created");
  const metadata: JsonObject = { ...rest, name: nameOf(given), uid: randomUUID(), creationTimestamp: now };
  if (address.name !== "" && metadata["name"] !== address.name)
    throw badRequest(
      `the name of the object (${metadata["name"]}) does not match the name on the URL (${address.name})`,
    );
  if (kind.hasGeneration) metadata["generation"] = 1;
  setNamespace(request, metadata);
  return metadata;
}

/** Gives namespaced objects the namespace of the path. Throws 400 when theirs is another. */
export function setNamespace({ kind, address }: WriteRequest, metadata: JsonObject): void {
  const given = metadata["namespace"];
  if (given !== undefined && given !== "" && given !== address.namespace)
    throw badRequest(
      `the namespace of the provided object does not match the namespace sent on the request: "${given}" is not "${address.namespace}"`,
    );
  if (kind.namespaced) metadata["namespace"] = address.namespace;
  else delete metadata["namespace"];
}

function nameOf(metadata: JsonObject): string {
  const { name, generateName } = metadata;
  if (typeof name === "string" && name !== "") return name;
  if (typeof generateName !== "string" || generateName === "") return "";
  const suffix = [...randomBytes(SUFFIX_LENGTH)].map((byte) => SUFFIX_CHARACTERS[byte % SUFFIX_CHARACTERS.length]);
  return `${generateName.slice(0, GENERATED_PREFIX_MAX)}${suffix.join("")}`;
}

// People read objects: what they are comes first.
function inOrder({ apiVersion, kind, metadata, ...body }: JsonObject): JsonObject {
  return { apiVersion, kind, metadata, ...body };
}
