// How a ResourceQuota names what claims of a namespace request (Kubernetes, "Resource Quotas": storage resource quota). Pure.

const KEY = "requests.storage";

/** Of all claims, or of those of one StorageClass. */
export function storageKeyOf(className: string | undefined): string {
  return className === undefined ? KEY : `${className}.storageclass.storage.k8s.io/${KEY}`;
}
