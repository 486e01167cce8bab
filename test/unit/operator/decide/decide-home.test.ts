import { describe, expect, it } from "@jest/globals";
import {
  HOME_GUARDS,
  HOME_LABELS,
  type HomeGuard,
  homeProblem,
  missingRight,
} from "../../../../src/operator/decide/decide-home.ts";

const metadata = { name: "tidemark-volumes", labels: { ...HOME_LABELS, team: "red" } };
const namespace = { apiVersion: "v1", kind: "Namespace", metadata };
const API = { apiVersion: "admissionregistration.k8s.io/v1" };
const policyOf = (name: string, failurePolicy: "Fail" | "Ignore" = "Fail") => ({
  ...{ ...API, kind: "ValidatingAdmissionPolicy", metadata: { name } },
  spec: { failurePolicy },
});
const bindingOf = (name: string, changed: object = {}) => ({
  ...{ ...API, kind: "ValidatingAdmissionPolicyBinding", metadata: { name } },
  spec: { policyName: name, validationActions: ["Deny"], ...changed },
});
const guards: readonly HomeGuard[] = HOME_GUARDS.map((name) => ({
  name,
  policy: policyOf(name),
  binding: bindingOf(name),
}));

it("a namespace with our labels, under all guards, may have members", () => {
  expect(homeProblem(namespace, guards)).toBeUndefined();
});

it("and so may one whose common labels somebody who wraps the foundation has set", () => {
  const labels = { ...metadata.labels, "app.kubernetes.io/part-of": "platform" };
  expect(homeProblem({ ...namespace, metadata: { ...metadata, labels } }, guards)).toBeUndefined();
});

it("where no API server asks admission policies, the labels decide", () => {
  expect(homeProblem(namespace, [])).toBeUndefined();
  expect(homeProblem({ ...namespace, metadata: { name: "tidemark-volumes" } }, [])).toMatch(/lacks the label/);
});

describe("none is placed", () => {
  it("where the operator may not look: the right and the manifest that gives it are named, and the API server's words as far as there is room", () => {
    const kind = "validatingadmissionpolicies.admissionregistration.k8s.io";
    const remedy = "apply kustomize/base/operator/roles.yaml, as the operator may not get";
    expect(missingRight(kind, "Forbidden: no")).toContain(`${remedy} ${kind}`);
    expect(missingRight("namespaces", "Forbidden: no")).toMatch(new RegExp(`${remedy} namespaces: Forbidden: no$`));
  });

  it("in one that is not there, or is being deleted", () => {
    expect(homeProblem(undefined, guards)).toMatch(/does not exist/);
    const deletionTimestamp = "2026-01-01T00:00:00Z";
    expect(homeProblem({ ...namespace, metadata: { ...metadata, deletionTimestamp } }, guards)).toMatch(
      /being deleted/,
    );
  });

  it.each([
    ["no labels", undefined],
    ["labels of a tenant's", { "app.kubernetes.io/part-of": "tidemark" }],
    ["pods of any kind", { "pod-security.kubernetes.io/enforce": "privileged" }],
  ])("in one with %s, and it is said what mends that", (_what, labels) => {
    const { labels: _ours, ...rest } = metadata;
    const problem = homeProblem({ ...namespace, metadata: labels === undefined ? rest : { ...rest, labels } }, guards);
    expect(problem).toContain("lacks the label pod-security.kubernetes.io/enforce=restricted");
    expect(problem).toContain("then apply kustomize/foundation: ");
  });

  describe.each(HOME_GUARDS)("without %s", (name) => {
    it.each<[string, Partial<HomeGuard>]>([
      ["which is not there", { policy: undefined, binding: undefined }],
      ["of which only the binding is there", { policy: undefined }],
      ["of which only the policy is there", { binding: undefined }],
      ["which lets through what it fails on", { policy: policyOf(name, "Ignore") }],
      ["which only warns", { binding: bindingOf(name, { validationActions: ["Warn", "Audit"] }) }],
      ["which is bound to some objects only", { binding: bindingOf(name, { matchResources: {} }) }],
      ["whose binding is another policy's", { binding: bindingOf(name, { policyName: "mine" }) }],
    ])("%s", (_what, broken) => {
      const others = guards.map((guard) => (guard.name === name ? { ...guard, ...broken } : guard));
      expect(homeProblem(namespace, others)).toContain(name);
    });
  });
});
