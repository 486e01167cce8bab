// AdmissionReviews of policies as the API server sends them.
import type { AnyPolicy } from "../../src/policy-engine/policies/compile-policy.ts";

const PLURALS = { VolumePolicy: "volumepolicies", ClusterVolumePolicy: "clustervolumepolicies" } as const;

/** Of a policy that is created, unless the request says otherwise. */
export function buildPolicyReview(policy: AnyPolicy, request: object = {}): Record<string, unknown> {
  const { namespace, name } = policy.metadata;
  const resource = { group: "tidemark.dev", version: "v1alpha1", resource: PLURALS[policy.kind] };
  return {
    apiVersion: "admission.k8s.io/v1",
    kind: "AdmissionReview",
    request: {
      uid: "5ab41d2e",
      ...(namespace === undefined ? {} : { namespace }),
      name,
      operation: "CREATE",
      resource,
      oldObject: null,
      object: policy,
      ...request,
    },
  };
}
