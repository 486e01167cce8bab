// How other autoscalers of claims are recognised by what they have people write on a claim. Two that raise one request would each
// undo the other's reasons; ours holds.

/** Annotations under these belong to another autoscaler. */
const PREFIXES = [
  "resize.topolvm.io/", // pvc-autoresizer
  "volume.autoscaler.kubernetes.io/", // DevOps-Nirvana's Kubernetes-Volume-Autoscaler
  "pvc.autoscaling.gardener.cloud/",
  "trident.netapp.io/autogrowPolicy",
] as const;

/** By which its owner is told to leave a claim alone. */
const LEFT_ALONE = ["volume.autoscaler.kubernetes.io/ignore"];

/** The annotation by which another autoscaler acts on the claim; undefined: none does. */
export function otherAutoscalerOf(annotations: Readonly<Record<string, string>> = {}): string | undefined {
  if (LEFT_ALONE.some((key) => annotations[key] === "true")) return undefined;
  return Object.keys(annotations)
    .filter((key) => PREFIXES.some((prefix) => key.startsWith(prefix)))
    .sort()[0];
}
