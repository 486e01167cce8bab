// The admission plugin PersistentVolumeClaimResize: a bound claim grows only where its class says that its volumes can.
import { type ApiError, forbidden } from "../http/api-error.ts";
import type { WriteRequest } from "../http/write-request.ts";
import { asJsonObject, type JsonObject } from "../store/json.ts";
import type { ObjectStore } from "../store/store.ts";
import { builtInKind } from "./built-in-kinds.ts";
import { isBound, requestedBytes } from "./claim-rules.ts";

const CLASSES = builtInKind("StorageClass");
const WHY =
  "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize";

/** 403; undefined: it may be written. */
export function resizeRefusal(
  store: ObjectStore,
  { kind, address, subresource }: WriteRequest,
  before: JsonObject,
  object: JsonObject,
): ApiError | undefined {
  if (kind.custom || kind.kind !== "PersistentVolumeClaim" || subresource !== "" || !isBound(before)) return undefined;
  const [spec, old] = [asJsonObject(object["spec"]), asJsonObject(before["spec"])];
  if ((requestedBytes(spec) ?? 0) <= (requestedBytes(old) ?? 0)) return undefined;
  const name = spec["storageClassName"];
  const storageClass = name ? store.get(CLASSES, { namespace: "", name: String(name) }) : undefined;
  return storageClass?.["allowVolumeExpansion"] === true ? undefined : forbidden(kind, address.name, WHY);
}
