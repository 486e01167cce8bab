// How other autoscalers of claims are recognised by what they have people write on a claim or its class. Two that raise one request
// would each undo the other's reasons; ours holds.

interface Autoscaler {
  /** Of its annotations. */
  readonly prefix: string;
  /** By which, on the claim, it is told to leave that alone, and the only value that says so. */
  readonly leftAloneBy?: readonly [annotation: string, value: string];
  /** On a class: it acts on all of its claims. */
  readonly classAnnotation?: string;
}

const AUTOSCALERS: readonly Autoscaler[] = [
  { prefix: "resize.topolvm.io/" }, // pvc-autoresizer: its class annotation allows it, the claim's limit asks for it
  {
    prefix: "volume.autoscaler.kubernetes.io/", // DevOps-Nirvana's Kubernetes-Volume-Autoscaler
    leftAloneBy: ["volume.autoscaler.kubernetes.io/ignore", "true"],
  },
  { prefix: "pvc.autoscaling.gardener.cloud/" },
  {
    prefix: "trident.netapp.io/autogrowPolicy", // a claim's overrides its class'
    leftAloneBy: ["trident.netapp.io/autogrowPolicy", "none"],
    classAnnotation: "trident.netapp.io/autogrowPolicy",
  },
];

interface Annotated {
  readonly metadata: { readonly annotations?: Readonly<Record<string, string>> };
}

/** What another autoscaler acts on the claim by, for people: "annotation X", "X of its class"; undefined: none does. */
export function otherAutoscalerOf(claim: Annotated, storageClass: Annotated | undefined): string | undefined {
  const annotations = claim.metadata.annotations ?? {};
  for (const { prefix, leftAloneBy: [key, value] = [], classAnnotation } of AUTOSCALERS) {
    if (key !== undefined && annotations[key] === value) continue;
    const [own] = Object.keys(annotations)
      .filter((name) => name.startsWith(prefix))
      .sort();
    if (own !== undefined) return own;
    const ofClass = storageClass?.metadata.annotations?.[classAnnotation ?? ""];
    if (classAnnotation !== undefined && ofClass !== undefined && ofClass !== value)
      return `${classAnnotation} on its class`;
  }
  return undefined;
}
