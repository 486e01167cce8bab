// How much of each node's room has been given away, recounted from what Kubernetes itself holds: the node that a pod is bound to, and what
// its claims ask for. Nothing that a part of Tidemark has written is read, nor what a claim has become.
import type { KubeObject } from "../../src/contracts/kubernetes/object.ts";
import type { PersistentVolumeClaim, Pod } from "../../src/contracts/kubernetes/resources.ts";
import { parseQuantity } from "../../src/contracts/quantities/quantity.ts";

export interface OverCommit {
  readonly node: string;
  readonly roomBytes: number;
  readonly takenBytes: number;
}

type PlacedPod = KubeObject & { readonly spec: Pick<Pod["spec"], "nodeName" | "volumes"> };

/**
 * `roomBytes`: of each node, before the first of these pods came; a node that is not in it has none. A claim of several pods counts once on
 * each of their nodes. Throws where a pod has a node and a claim of its is not among the claims: nobody could tell what it takes.
 */
export function overCommits(
  pods: readonly PlacedPod[],
  claims: readonly PersistentVolumeClaim[],
  roomBytes: ReadonlyMap<string, number>,
): OverCommit[] {
  const requested = new Map(claims.map((claim) => [keyOf(claim.metadata.namespace, claim.metadata.name), claim]));
  const claimsOn = new Map<string, Set<string>>();
  for (const { metadata, spec } of pods) {
    if (!spec.nodeName) continue;
    const onNode = claimsOn.get(spec.nodeName) ?? new Set<string>();
    for (const volume of spec.volumes ?? []) {
      const name =
        volume.persistentVolumeClaim?.claimName ?? (volume.ephemeral && `${metadata.name}-${volume.name}`) ?? "";
      if (name !== "") onNode.add(keyOf(metadata.namespace, name));
    }
    claimsOn.set(spec.nodeName, onNode);
  }
  const bytesOf = (key: string): number => {
    const storage = requested.get(key)?.spec.resources?.requests?.storage;
    if (storage === undefined) throw new Error(`a pod has a node, and nobody knows what its claim ${key} asks for`);
    return parseQuantity(storage);
  };
  return [...claimsOn]
    .map(([node, keys]) => ({
      node,
      roomBytes: roomBytes.get(node) ?? 0,
      takenBytes: [...keys].reduce((sum, key) => sum + bytesOf(key), 0),
    }))
    .filter((one) => one.takenBytes > one.roomBytes);
}

const keyOf = (namespace: string | undefined, name: string): string => `${namespace ?? ""}/${name}`;
