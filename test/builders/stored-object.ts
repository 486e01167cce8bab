// What the API server has after an apply that is the only one.
import type { KubeObject } from "../../src/contracts/kubernetes/object.ts";
import type { ApplyConfiguration } from "../../src/platform/kube/client/client.ts";

/** The caller says of which kind it is; no field is filled in. */
export function storedObject<T extends KubeObject>(configuration: ApplyConfiguration): T {
  const object: KubeObject = configuration;
  return object as T;
}
