// The component placement: the extender beside what is there, and nothing of that changed.
import { describe, expect, it } from "@jest/globals";
import { readConfig } from "../../src/extender/config.ts";
import { hasKubectl, kustomize, kustomizeWith, type Manifest, manifestsOf, podSpecOf } from "../harness/kustomize.ts";

const describeWithKubectl = hasKubectl() ? describe : describe.skip;
const names = (manifests: readonly Manifest[]) => manifests.map(({ kind, metadata }) => `${kind} ${metadata.name}`);

describeWithKubectl("the component placement", () => {
  const base = hasKubectl() ? manifestsOf(kustomize("overlays/lvm")) : [];
  const text = hasKubectl()
    ? kustomizeWith("overlays/lvm", { namespace: "storage-team" }, ["components/placement"])
    : "";
  const manifests = manifestsOf(text);
  const ofExtender = (kind: string) => manifests.find((one) => one.kind === kind && one.metadata.name === "extender");

  it("adds the extender, and takes nothing away", () => {
    expect(names(manifests)).toEqual(
      expect.arrayContaining([
        "ClusterRole tidemark-extender",
        "ClusterRoleBinding tidemark-extender",
        "Deployment extender",
        "PodDisruptionBudget extender",
        "Service extender",
        "ServiceAccount extender",
      ]),
    );
    const missing = names(base).filter((name) => !names(manifests).includes(name) && !name.startsWith("Namespace "));
    expect(missing).toEqual([]);
  });

  it("follows somebody's own namespace", () => {
    for (const kind of ["Deployment", "PodDisruptionBudget", "Service", "ServiceAccount"])
      expect(ofExtender(kind)?.metadata.namespace).toBe("storage-team");
    const subjects = manifests.flatMap((one) => one.subjects ?? []).filter(({ name }) => name === "extender");
    expect(subjects).toHaveLength(2);
    for (const subject of subjects)
      expect(subject).toEqual({ kind: "ServiceAccount", name: "extender", namespace: "storage-team" });
  });

  it("serves where its Service and its probes ask, with flags that it has", () => {
    const { containers, serviceAccountName } = podSpecOf(manifests, "extender");
    const [container] = containers;
    expect(serviceAccountName).toBe("extender");
    expect(container?.args?.[0]).toBe("extender");
    const { httpPort, extenderPort } = readConfig((container?.args ?? []).slice(1), {});
    expect(container?.ports).toEqual([
      { name: "extender", containerPort: extenderPort },
      { name: "metrics", containerPort: httpPort },
    ]);
    const service = ofExtender("Service")?.spec;
    expect(service).toMatchObject({
      sessionAffinity: "ClientIP",
      ports: [{ port: extenderPort, targetPort: "extender" }],
    });
    for (const probe of ["startupProbe", "livenessProbe", "readinessProbe"])
      expect(container?.[probe]).toMatchObject({ httpGet: { port: "metrics" } });
  });

  it("runs without root, capabilities and a writable image, on two nodes where there are two", () => {
    const spec = podSpecOf(manifests, "extender");
    expect(ofExtender("Deployment")?.spec).toMatchObject({ replicas: 2 });
    expect(spec).toMatchObject({ securityContext: { runAsNonRoot: true } });
    expect(spec["affinity"]).toMatchObject({ podAntiAffinity: expect.any(Object) });
    expect(spec.containers[0]?.securityContext).toEqual({
      allowPrivilegeEscalation: false,
      readOnlyRootFilesystem: true,
      capabilities: { drop: ["ALL"] },
    });
  });
});
