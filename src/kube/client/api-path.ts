// Where a kind, a collection or an object lives on the API server. Pure.
import type { KubeObject, ObjectName, Resource } from "../object.ts";

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
