// What protects data is applied once, before any overlay, and is in no overlay: a delete of the install leaves it.
import { readdirSync } from "node:fs";
import { describe, expect, it } from "@jest/globals";
import { csiDriver } from "../../demo/stand-ins/bootstrap.ts";
import { MEMBER_NAMESPACE } from "../../src/contracts/names.ts";
import { homeProblem } from "../../src/operator/decide/decide-home.ts";
import { KEPT_BY_GITOPS } from "../../src/operator/volumes/member-objects.ts";
import { hasKubectl, kustomize, kustomizeWith, type Manifest, manifestsOf } from "../harness/kustomize.ts";

const describeWithKubectl = hasKubectl() ? describe : describe.skip;
const OVERLAYS = readdirSync("kustomize/overlays").map((name) => `overlays/${name}`);
const COMPONENTS = readdirSync("kustomize/components").map((name) => `components/${name}`);
const GUARD_KINDS = ["ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"];
const PROTECTING_KINDS = [...GUARD_KINDS, "CustomResourceDefinition", "CSIDriver"];

interface DefinitionsGuard {
  readonly matchConstraints: { readonly objectSelector: { readonly matchLabels: Readonly<Record<string, string>> } };
}

const named = ({ kind, metadata }: Manifest): string => `${kind} ${metadata.name}`;

describeWithKubectl("the foundation", () => {
  const text = hasKubectl() ? kustomize("foundation") : "";
  const manifests = manifestsOf(text);
  const names = manifests.map(named);
  const definitionsGuard = manifests.find(({ metadata }) => metadata.name === "tidemark-definitions-guard");
  const guardedBy = (definitionsGuard?.spec as DefinitionsGuard | undefined)?.matchConstraints.objectSelector
    .matchLabels;

  it("installs exactly this, and goes in this order: what the guards hold first, then where their parameter is, the guards last", () => {
    expect(names).toEqual([
      "CustomResourceDefinition volumepolicies.tidemark.dev",
      "CustomResourceDefinition clustervolumepolicies.tidemark.dev",
      "CustomResourceDefinition scalingapprovals.tidemark.dev",
      "CustomResourceDefinition filesystems.tidemark.dev",
      "CustomResourceDefinition filesystemlayouts.tidemark.dev",
      "CustomResourceDefinition logicalvolumes.tidemark.dev",
      "CustomResourceDefinition nodestorages.tidemark.dev",
      "CSIDriver local.tidemark.dev",
      "CSIDriver span.tidemark.dev",
      `Namespace ${MEMBER_NAMESPACE}`,
      "ClusterRole tidemark-view",
      "ClusterRole tidemark-edit",
      "ClusterRole tidemark-approver",
      "ValidatingAdmissionPolicy tidemark-member-guard",
      "ValidatingAdmissionPolicyBinding tidemark-member-guard",
      "ValidatingAdmissionPolicy tidemark-root-guard",
      "ValidatingAdmissionPolicyBinding tidemark-root-guard",
      "ValidatingAdmissionPolicy tidemark-definitions-guard",
      "ValidatingAdmissionPolicyBinding tidemark-definitions-guard",
      "ValidatingAdmissionPolicy tidemark-node-scope",
      "ValidatingAdmissionPolicyBinding tidemark-node-scope",
      "ValidatingAdmissionPolicy tidemark-decision-scope",
      "ValidatingAdmissionPolicyBinding tidemark-decision-scope",
      "ValidatingAdmissionPolicy tidemark-volume-scope",
      "ValidatingAdmissionPolicyBinding tidemark-volume-scope",
      "ValidatingAdmissionPolicy tidemark-member-scope",
      "ValidatingAdmissionPolicyBinding tidemark-member-scope",
      "ValidatingAdmissionPolicy tidemark-event-scope",
      "ValidatingAdmissionPolicyBinding tidemark-event-scope",
    ]);
  });

  it.each(manifests.map((object) => [named(object), object] as const))(
    "keeps GitOps tools from deleting the %s, and carries the label by which the guards find it",
    (_name, { metadata }) => {
      expect(metadata.annotations).toEqual(KEPT_BY_GITOPS);
      expect(metadata.labels).toMatchObject({ "app.kubernetes.io/part-of": "tidemark", ...guardedBy });
    },
  );

  it("may be wrapped with common labels of somebody's own: the guards find what they guard, and members have a place", () => {
    const platform = { "app.kubernetes.io/part-of": "platform" };
    const wrapped = manifestsOf(kustomizeWith("foundation", { commonLabels: platform }));
    expect(wrapped.map(named).sort()).toEqual([...names].sort());
    for (const { metadata } of wrapped) expect(metadata.labels).toMatchObject({ ...platform, ...guardedBy });
    const home = wrapped.find(({ kind }) => kind === "Namespace");
    expect(homeProblem(home, [])).toBeUndefined();
  });

  it("holds each guard by a finalizer, since no guard is asked about guards, and nothing else", () => {
    for (const { kind, metadata } of manifests)
      expect(metadata.finalizers).toEqual(GUARD_KINDS.includes(kind) ? ["tidemark.dev/guard"] : undefined);
  });

  it("names no namespace of the processes: every overlay, in whatever namespace, stands on it", () => {
    expect(text).not.toContain("tidemark-system");
    expect(text).not.toContain("$" + "{");
  });

  it("takes every definition from kustomize/foundation/crds", () => {
    const files = readdirSync("kustomize/foundation/crds").filter((name) => name.startsWith("tidemark.dev_"));
    expect(files).toHaveLength(manifests.filter(({ kind }) => kind === "CustomResourceDefinition").length);
  });

  it("says of the local driver what standalone says", () => {
    const driver = manifests.find(({ kind, metadata }) => kind === "CSIDriver" && metadata.name.startsWith("local."));
    expect(driver?.spec).toMatchObject(csiDriver()["spec"] as object);
  });

  it.each([...OVERLAYS, "base"])(
    "has nothing in common with %s, whose deletion takes nothing that protects data",
    (directory) => {
      const overlay = manifestsOf(kustomize(directory));
      expect(overlay.length).toBeGreaterThan(20);
      expect(overlay.map(named).filter((name) => names.includes(name))).toEqual([]);
      expect(overlay.filter(({ kind }) => PROTECTING_KINDS.includes(kind)).map(named)).toEqual([]);
    },
  );

  it.each(COMPONENTS)("has nothing in common with what %s adds", (directory) => {
    const overlay = manifestsOf(
      kustomizeWith(
        "overlays/lvm",
        {},
        [directory].filter((name) => !name.includes("/lvm")),
      ),
    );
    expect(overlay.filter((object) => names.includes(named(object))).map(named)).toEqual([]);
  });
});
