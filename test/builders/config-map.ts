// ConfigMaps: the smallest kind there is, for tests of what holds for every kind.
import type { KubeObject, Resource } from "../../src/contracts/kubernetes/object.ts";

export interface TestConfigMap extends KubeObject {
  data?: Record<string, string> | undefined;
}

export const CONFIG_MAPS: Resource<TestConfigMap> = {
  group: "",
  version: "v1",
  plural: "configmaps",
  kind: "ConfigMap",
  namespaced: true,
};

/** A ConfigMap "shop/<name>"; its uid follows from its name unless given. */
export function configMap(
  name: string,
  resourceVersion?: string,
  data?: Record<string, string>,
  uid = `uid-${name}`,
): TestConfigMap {
  return { apiVersion: "v1", kind: "ConfigMap", metadata: { name, namespace: "shop", uid, resourceVersion }, data };
}
