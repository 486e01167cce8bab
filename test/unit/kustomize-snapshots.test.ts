// The component snapshots: what it adds to the operator, and nothing else.
import { readFileSync } from "node:fs";
import { describe, expect, it } from "@jest/globals";
import {
  hasKubectl,
  kustomize,
  kustomizeWith,
  type Manifest,
  manifestsOf,
  podSpecOf,
  rulesOf,
} from "../harness/kustomize.ts";

const describeWithKubectl = hasKubectl() ? describe : describe.skip;
const names = (manifests: readonly Manifest[]) => manifests.map(({ kind, metadata }) => `${kind} ${metadata.name}`);

describeWithKubectl("the component snapshots", () => {
  const base = hasKubectl() ? manifestsOf(kustomize("overlays/lvm")) : [];
  const fields = { namespace: "storage-team" };
  const manifests = hasKubectl() ? manifestsOf(kustomizeWith("overlays/lvm", fields, ["components/snapshots"])) : [];

  it("adds roles, and takes nothing away", () => {
    const added = names(manifests).filter((name) => !names(base).includes(name));
    expect(added.filter((name) => !name.startsWith("Namespace ")).sort()).toEqual([
      "ClusterRole tidemark-csi-provisioner-of-snapshots",
      "ClusterRole tidemark-csi-snapshotter",
      "ClusterRoleBinding tidemark-csi-provisioner-of-snapshots",
      "ClusterRoleBinding tidemark-csi-snapshotter",
      "Role csi-snapshotter",
      "RoleBinding csi-snapshotter",
    ]);
  });

  it("has the sidecar in the operator's pod, on a port of its own, as the others are", () => {
    const { containers } = podSpecOf(manifests, "operator");
    const containerOf = (name: string) => containers.find((container) => container.name === name);
    const [snapshotter, provisioner] = [containerOf("csi-snapshotter"), containerOf("csi-provisioner")];
    expect(containers).toHaveLength(podSpecOf(base, "operator").containers.length + 1);
    expect(snapshotter?.args).toEqual(expect.arrayContaining([provisioner?.args?.[0], "--http-endpoint=:9472"]));
    const { securityContext, volumeMounts } = provisioner ?? {};
    expect(snapshotter).toMatchObject({ securityContext, volumeMounts });
    const ports = containers.flatMap(({ ports: some = [] }) => some.map(({ containerPort }) => containerPort));
    expect(new Set(ports).size).toBe(ports.length);
  });

  it("is of the version that a test cluster's is built from", () => {
    const version = /external-snapshotter\/v\d+ (v\S+)/.exec(readFileSync("test/tools/kubernetes/go.mod", "utf8"))?.[1];
    const imageOf = (some: readonly Manifest[]) =>
      podSpecOf(some, "operator").containers.find(({ name }) => name === "csi-snapshotter")?.image;
    expect(imageOf(manifests)?.replace(/@.*/, "")).toBe(`registry.k8s.io/sig-storage/csi-snapshotter:${version}`);
    const ofTest = manifestsOf(kustomize("overlays/e2e-snapshots"));
    expect(imageOf(ofTest)).toBe(`registry.k8s.io/sig-storage/csi-snapshotter:${version}-local`);
  });

  it("lets the operator's account do what they call, in whatever namespace it is", () => {
    const added = manifests.filter((one) => !names(base).includes(`${one.kind} ${one.metadata.name}`));
    const subjects = added.flatMap((one) => one.subjects ?? []);
    expect(subjects.length).toBeGreaterThan(2);
    for (const subject of subjects) expect(subject).toMatchObject({ name: "operator", namespace: "storage-team" });
    const resources = rulesOf(added, "operator").flatMap((rule) => rule.resources);
    expect([...new Set(resources)].sort()).toEqual([
      "events",
      "leases",
      "volumesnapshotclasses",
      "volumesnapshotcontents",
      "volumesnapshotcontents/status",
      "volumesnapshots",
    ]);
  });
});
