// ScalingApprovals as people write them: of the claim shop/data-0, extends up to 20Gi until the end of 2026, unless a test says otherwise.
import type { ScalingApproval } from "../../src/contracts/kinds/scaling-approval.ts";

export function anApproval(name: string, spec: Partial<ScalingApproval["spec"]> = {}, generation = 1): ScalingApproval {
  return {
    apiVersion: "tidemark.dev/v1alpha1",
    kind: "ScalingApproval",
    metadata: {
      ...{ namespace: "shop", name, uid: `uid-of-${name}`, generation, resourceVersion: `${generation}` },
      creationTimestamp: "2026-11-01T00:00:00Z",
    },
    spec: { claims: ["data-0"], action: "Extend", notAbove: "20Gi", notAfter: "2026-12-31T00:00:00Z", ...spec },
  };
}
