// Nodes, by their taints: each forbids pods to run there.
import type { Node } from "../../src/contracts/kubernetes/resources.ts";

export function buildNode(name: string, taints: readonly string[] = [], resourceVersion = "1"): Node {
  const spec = { taints: taints.map((key) => ({ key, effect: "NoExecute" })) };
  return { apiVersion: "v1", kind: "Node", metadata: { name, uid: `node-${name}`, resourceVersion }, spec };
}
