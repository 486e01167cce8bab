// Which reviews are about a policy that is to be compiled, and which are not looked at.
import { describe, expect, it } from "@jest/globals";
import { readPolicyReview } from "../../../../src/policy-engine/admission/policy-review.ts";
import type { AnyPolicy } from "../../../../src/policy-engine/policies/compile-policy.ts";
import { aClusterPolicy, aVolumePolicy } from "../../../builders/policy.ts";
import { buildPolicyReview } from "../../../builders/policy-review.ts";

const policy = aVolumePolicy();
const readText = (body: string): unknown => {
  const { policy: read } = readPolicyReview(body);
  return typeof read === "string" ? read : { namespace: read.namespace, policy: JSON.parse(read.text) as unknown };
};
const read = (request: object): unknown => readText(JSON.stringify(buildPolicyReview(policy, request)));
const inBrief = ({ metadata: { creationTimestamp: _, ...metadata }, ...rest }: AnyPolicy): unknown => ({
  ...rest,
  metadata,
});

describe("a review", () => {
  it("of a new policy is about that, without the annotations that nothing here reads", () => {
    const metadata = { ...policy.metadata, annotations: { ballast: "x" } };
    expect(read({ object: { ...policy, metadata } })).toEqual({ namespace: "shop", policy: inBrief(policy) });
  });

  it("of a policy has the kind and the namespace that the API server names, whatever the object says", () => {
    const object = { ...policy, kind: "ClusterVolumePolicy", metadata: { ...policy.metadata, namespace: "other" } };
    expect(read({ object })).toMatchObject({ policy: { kind: "VolumePolicy", metadata: { namespace: "shop" } } });
  });

  it("of a cluster's policy is about one of no namespace", () => {
    const seen = readText(JSON.stringify(buildPolicyReview(aClusterPolicy())));
    expect(seen).toEqual({ namespace: undefined, policy: inBrief(aClusterPolicy()) });
  });

  it.each<[string, object]>([
    ["of an update that leaves the spec", { operation: "UPDATE", oldObject: aVolumePolicy({}, { name: "default" }) }],
    ["of a deletion", { operation: "DELETE", object: null, oldObject: policy }],
    ["of a status", { operation: "UPDATE", oldObject: aVolumePolicy({ rules: [] }), subResource: "status" }],
    ["of another kind", { resource: { group: "tidemark.dev", version: "v1alpha1", resource: "filesystems" } }],
    ["of another version", { resource: { group: "tidemark.dev", version: "v1", resource: "volumepolicies" } }],
  ])("%s is about nothing that could be refused", (_sentence, request) => {
    expect(read(request)).toBe("unasked");
  });

  it("of an update that changes the spec is about what it becomes", () => {
    expect(read({ operation: "UPDATE", oldObject: aVolumePolicy({ rules: [] }) })).toMatchObject({
      policy: { spec: policy.spec },
    });
  });

  it("of a spec that is larger than any that the API server takes is not about one that is compiled", () => {
    expect(read({ object: { ...policy, spec: { ...policy.spec, more: "x".repeat(1 << 19) } } })).toBe("too large");
  });

  it.each([{ object: null }, { object: "x" }, { object: { spec: {} } }, { object: { metadata: { name: 1 } } }])(
    "of %j is refused: it is not a policy",
    (request) => {
      expect(() => read(request)).toThrow("the object is not a policy");
    },
  );
});
