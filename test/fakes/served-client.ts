// A client of an API server that a case plays by itself. Calls that the case does not serve are rejected.

import type { KubeObject, ObjectName, Resource } from "../../src/contracts/kubernetes/object.ts";
import type {
  ApplyConfiguration,
  ApplyOptions,
  DeleteOptions,
  KubeClient,
  ListOptions,
} from "../../src/platform/kube/client/client.ts";

type AnyResource = Resource<KubeObject>;

/** Answers with objects of the kind that is asked for: only the case knows which those are. */
export interface Served {
  get?(resource: AnyResource, name: ObjectName): Promise<KubeObject | undefined>;
  list?(resource: AnyResource, options?: ListOptions): Promise<KubeObject[]>;
  create?(point: string, resource: AnyResource, object: KubeObject): Promise<KubeObject>;
  update?(point: string, resource: AnyResource, object: KubeObject, subresource?: "status"): Promise<KubeObject>;
  apply?(
    point: string,
    resource: AnyResource,
    configuration: ApplyConfiguration,
    options: ApplyOptions,
  ): Promise<KubeObject>;
  mergePatch?(point: string, resource: AnyResource, name: ObjectName, patch: object): Promise<KubeObject>;
  delete?(point: string, resource: AnyResource, name: ObjectName, options?: DeleteOptions): Promise<boolean>;
}

export function servedClient(served: Served): KubeClient {
  const unserved = (verb: string, { plural }: AnyResource): Promise<never> =>
    Promise.reject(new Error(`this case serves no ${verb} of ${plural}`));
  return {
    get: async <T extends KubeObject>(resource: Resource<T>, name: ObjectName) =>
      (await (served.get?.(resource, name) ?? unserved("get", resource))) as T | undefined,
    list: async <T extends KubeObject>(resource: Resource<T>, options?: ListOptions) => ({
      items: (await (served.list?.(resource, options) ?? unserved("list", resource))) as T[],
      resourceVersion: "1",
    }),
    watch: (resource) => {
      throw new Error(`this case serves no watch of ${resource.plural}`);
    },
    create: async <T extends KubeObject>(point: string, resource: Resource<T>, object: T) =>
      (await (served.create?.(point, resource, object) ?? unserved("create", resource))) as T,
    update: async <T extends KubeObject>(point: string, resource: Resource<T>, object: T, subresource?: "status") =>
      (await (served.update?.(point, resource, object, subresource) ?? unserved("update", resource))) as T,
    apply: async <T extends KubeObject>(
      point: string,
      resource: Resource<T>,
      configuration: ApplyConfiguration,
      options: ApplyOptions,
    ) => (await (served.apply?.(point, resource, configuration, options) ?? unserved("apply", resource))) as T,
    mergePatch: async <T extends KubeObject>(point: string, resource: Resource<T>, name: ObjectName, patch: object) =>
      (await (served.mergePatch?.(point, resource, name, patch) ?? unserved("patch", resource))) as T,
    delete: (point, resource, name, options) =>
      served.delete?.(point, resource, name, options) ?? unserved("delete", resource),
  };
}
