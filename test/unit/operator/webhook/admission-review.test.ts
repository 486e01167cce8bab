import { describe, expect, it } from "@jest/globals";
import { answerOf, readReview } from "../../../../src/operator/webhook/admission-review.ts";
import { buildPod, buildReview, ephemeral, ofClaim } from "../../../builders/pod-review.ts";

const pod = buildPod([ofClaim("data"), ephemeral("scratch", undefined, "1Gi")]);

describe("an AdmissionReview", () => {
  it("is read with the pod as it is, fields that we do not know included", () => {
    const odd = { ...pod, spec: { ...pod.spec, hostNetwork: true, tolerations: [{ operator: "Exists" }] } };
    expect(readReview(JSON.stringify(buildReview(odd)))).toEqual({ uid: "705ab4f5", namespace: "shop", pod: odd });
  });

  it.each<[string, object]>([
    ["another operation", { operation: "UPDATE" }],
    ["another resource", { resource: { group: "apps", version: "v1", resource: "deployments" }, object: {} }],
    ["a subresource", { subResource: "binding", object: { kind: "Binding" } }],
    ["an operation without an object", { operation: "DELETE", object: null }],
  ])("about %s has no pod in it", (_name, request) => {
    expect(readReview(JSON.stringify(buildReview(pod, request)))).toMatchObject({ uid: "705ab4f5", pod: undefined });
  });

  const whole = JSON.stringify(buildReview(pod));
  it.each<[string, string, string | RegExp]>([
    ["nothing", "", "no JSON in 0 characters, or truncated"],
    ["truncated", whole.slice(0, -10), /no JSON in \d+ characters, or truncated/],
    ["a list", "[]", /no AdmissionReview of admission.k8s.io\/v1: the whole: /],
    ["of an older version", whole.replace("admission.k8s.io/v1", "admission.k8s.io/v1beta1"), /apiVersion: /],
    ["another kind", JSON.stringify(pod), /no AdmissionReview .*apiVersion: /],
    ["without a request", JSON.stringify({ ...buildReview(pod), request: undefined }), /request: /],
    ["without a uid", JSON.stringify(buildReview(pod, { uid: "" })), /request.uid: /],
    [
      "a pod without containers",
      JSON.stringify(buildReview(buildPod([], { containers: [] }))),
      /not a pod: spec.containers: /,
    ],
    ["a pod that is null", JSON.stringify(buildReview(null)), /the object is not a pod: the whole: /],
    [
      "a pod with volumes that are none",
      JSON.stringify(buildReview({ spec: { ...pod.spec, volumes: "all" } })),
      /not a pod: spec.volumes: /,
    ],
  ])("that is none is refused with a sentence: %s", (_name, body, problem) => {
    expect(() => readReview(body)).toThrow(problem);
  });
});

describe("the answer", () => {
  it("always allows, with the patch in base64", () => {
    const patch = [{ op: "add", path: "/spec/schedulerName", value: "tidemark-scheduler" }] as const;
    expect(answerOf("1", patch, ["careful"])).toEqual({
      apiVersion: "admission.k8s.io/v1",
      kind: "AdmissionReview",
      response: {
        uid: "1",
        allowed: true,
        patchType: "JSONPatch",
        patch: Buffer.from(JSON.stringify(patch)).toString("base64"),
        warnings: ["careful"],
      },
    });
  });

  it("has no patch and no warnings where there are none", () => {
    expect(answerOf("1", [], [])).toMatchObject({ response: { uid: "1", allowed: true } });
    expect(JSON.stringify(answerOf("1", [], []))).not.toMatch(/patch|warnings/i);
  });
});
