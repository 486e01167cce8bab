// The shape that every Kubernetes object shares, and how a kind is addressed on the wire.

/** metadata as the API server returns it; resourceVersion is opaque and compared for equality only. */
export interface ObjectMeta {
  name: string;
  namespace?: string;
  uid?: string;
  resourceVersion?: string;
  generation?: number;
  creationTimestamp?: string;
  deletionTimestamp?: string;
  labels?: Record<string, string>;
  annotations?: Record<string, string>;
  finalizers?: string[];
  ownerReferences?: OwnerReference[];
}

export interface OwnerReference {
  apiVersion: string;
  kind: string;
  name: string;
  uid: string;
  controller?: boolean;
  blockOwnerDeletion?: boolean;
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

/** Which object: namespace is absent for cluster-scoped kinds. */
export interface ObjectName {
  readonly namespace?: string;
  readonly name: string;
}

/** "namespace/name", or "name" when cluster-scoped: the key of stores and queues. */
export function objectKey(name: ObjectName): string {
  return name.namespace === undefined ? name.name : `${name.namespace}/${name.name}`;
}

/** The inverse of objectKey. */
export function parseObjectKey(key: string): ObjectName {
  const slash = key.indexOf("/");
  return slash < 0 ? { name: key } : { namespace: key.slice(0, slash), name: key.slice(slash + 1) };
}
