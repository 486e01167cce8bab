// The shape that every Kubernetes object shares, and how a kind is addressed on the wire. JSON carries a field that is undefined like one
// that is left out: in all that goes to the API server, a field that may be left out may be undefined.
import type { V1OwnerReference } from "@kubernetes/client-node";

/** metadata as the API server returns it; resourceVersion is opaque and compared for equality only. */
export interface ObjectMeta {
  name: string;
  namespace?: string | undefined;
  uid?: string | undefined;
  resourceVersion?: string | undefined;
  generation?: number | undefined;
  creationTimestamp?: string | undefined;
  deletionTimestamp?: string | undefined;
  labels?: Record<string, string> | undefined;
  annotations?: Record<string, string> | undefined;
  finalizers?: string[] | undefined;
  ownerReferences?: V1OwnerReference[] | undefined;
}

export interface KubeObject {
  apiVersion: string;
  kind: string;
  metadata: ObjectMeta;
}

/** How one kind is addressed: the type parameter is what the server returns for it. */
export interface Resource<T extends KubeObject> {
  readonly group: string;
  readonly version: string;
  readonly plural: string;
  readonly kind: string;
  readonly namespaced: boolean;
  /** Never set: carries T for inference. */
  readonly example?: T;
}

/** Which object: no namespace for cluster-scoped kinds. */
export type ObjectName = Readonly<Pick<ObjectMeta, "namespace" | "name">>;

/** "namespace/name", or "name" when cluster-scoped: the key of stores and queues. */
export function objectKey(name: ObjectName): string {
  return name.namespace === undefined ? name.name : `${name.namespace}/${name.name}`;
}

/** The inverse of objectKey. */
export function parseObjectKey(key: string): ObjectName {
  const slash = key.indexOf("/");
  return slash < 0 ? { name: key } : { namespace: key.slice(0, slash), name: key.slice(slash + 1) };
}

// Where a kind, a collection or an object lives on the API server. Pure.

/** apiVersion as objects of the kind carry it: "v1", "storage.k8s.io/v1". */
export function apiVersionOf<T extends KubeObject>({ group, version }: Resource<T>): string {
  return group === "" ? version : `${group}/${version}`;
}

/** "persistentvolumeclaims", "filesystems.tidemark.dev": how messages name a kind. */
export function resourceLabel<T extends KubeObject>({ group, plural }: Resource<T>): string {
  return group === "" ? plural : `${plural}.${group}`;
}

/** The collection: of one namespace, or of all. */
export function collectionPath<T extends KubeObject>(resource: Resource<T>, namespace?: string): string {
  const root = resource.group === "" ? `/api/${resource.version}` : `/apis/${resource.group}/${resource.version}`;
  const scope = resource.namespaced && namespace !== undefined ? `/namespaces/${encodeURIComponent(namespace)}` : "";
  return `${root}${scope}/${resource.plural}`;
}

/** One object, or its subresource. Throws when the name cannot address the kind: the request would reach something else. */
export function objectPath<T extends KubeObject>(
  resource: Resource<T>,
  name: ObjectName,
  subresource?: string,
): string {
  if (name.name === "" || (resource.namespaced && (name.namespace ?? "") === ""))
    throw new Error(
      `${resourceLabel(resource)} "${name.name}" cannot be addressed: ${name.name === "" ? "no name" : "no namespace"}`,
    );
  const path = `${collectionPath(resource, name.namespace)}/${encodeURIComponent(name.name)}`;
  return subresource === undefined ? path : `${path}/${subresource}`;
}

/** "?a=1&b=2" of what is set. */
export function query(parameters: Readonly<Record<string, string | number | boolean | undefined>>): string {
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters)) if (value !== undefined) search.set(name, String(value));
  const text = search.toString();
  return text === "" ? "" : `?${text}`;
}
