// The component placement: the second scheduler, and that docs/placement.md configures a default scheduler the same way.
import { readFileSync } from "node:fs";
import { describe, expect, it } from "@jest/globals";
import { parse } from "yaml";
import { EXTENDER_CERTIFICATE_NAME, EXTENDER_SECRETS } from "../../src/contracts/names.ts";
import {
  hasKubectl,
  kustomize,
  kustomizeWith,
  type Manifest,
  manifestsOf,
  type PodSpec,
  podSpecOf,
} from "../harness/kustomize.ts";

const describeWithKubectl = hasKubectl() ? describe : describe.skip;
const NAMESPACE = "storage-team";

interface SchedulerConfiguration {
  readonly leaderElection?: object;
  readonly percentageOfNodesToScore: number;
  readonly profiles?: readonly { readonly schedulerName: string }[];
  readonly extenders: readonly { readonly urlPrefix: string; readonly [field: string]: unknown }[];
}

describeWithKubectl("the second scheduler", () => {
  const names = (manifests: readonly Manifest[]) => manifests.map(({ kind, metadata }) => `${kind} ${metadata.name}`);
  const base = hasKubectl() ? manifestsOf(kustomize("overlays/lvm")) : [];
  const fields = { namespace: NAMESPACE };
  const manifests = hasKubectl() ? manifestsOf(kustomizeWith("overlays/lvm", fields, ["components/placement"])) : [];
  const added = manifests.filter((one) => !names(base).includes(`${one.kind} ${one.metadata.name}`));
  const text = added.find(({ kind, metadata }) => kind === "ConfigMap" && metadata.name === "scheduler") as
    | (Manifest & { data: Record<string, string> })
    | undefined;
  const configuration = parse(text?.data["config.yaml"] ?? "") as SchedulerConfiguration;

  it("is there with all that it needs, and takes nothing away", () => {
    expect(names(added)).toEqual(
      expect.arrayContaining([
        "ClusterRoleBinding tidemark-scheduler",
        "ClusterRoleBinding tidemark-scheduler-volumes",
        "ConfigMap scheduler",
        "Deployment scheduler",
        "PodDisruptionBudget scheduler",
        "Role scheduler",
        "RoleBinding scheduler",
        "ServiceAccount scheduler",
      ]),
    );
    const missing = names(base).filter((name) => !names(manifests).includes(name) && !name.startsWith("Namespace "));
    expect(missing).toEqual([]);
  });

  it("looks at all nodes, and asks about nobody's pods but ours", () => {
    expect(configuration).toMatchObject({
      percentageOfNodesToScore: 100,
      profiles: [{ schedulerName: "tidemark-scheduler" }],
      extenders: [
        {
          filterVerb: "filter",
          prioritizeVerb: "prioritize",
          nodeCacheCapable: true,
          ignorable: false,
          managedResources: [{ name: "tidemark.dev/capacity", ignoredByScheduler: true }],
        },
      ],
    });
  });

  it("names no namespace where an overlay could not change it", () => {
    // The webhook's names the namespaces that it is not asked about: the installation's usual one among them.
    const others = added.filter(({ kind }) => kind !== "MutatingWebhookConfiguration");
    expect(JSON.stringify(others)).not.toContain("tidemark-system");
    for (const { subjects = [] } of added)
      for (const subject of subjects) expect(subject).toMatchObject({ namespace: NAMESPACE });
  });

  it("may read its certificate, which is of its group, where its configuration says that it is", () => {
    const spec = podSpecOf(manifests, "scheduler") as PodSpec & {
      readonly securityContext: { readonly runAsUser: number; readonly fsGroup?: number };
      readonly volumes: readonly { readonly name: string; readonly secret?: object }[];
      readonly containers: readonly {
        readonly volumeMounts: readonly { readonly name: string; readonly mountPath: string }[];
      }[];
    };
    const volume = spec.volumes.find(({ secret }) => secret !== undefined);
    expect(volume?.secret).toMatchObject({ secretName: EXTENDER_SECRETS.scheduler, defaultMode: 0o440 });
    expect(spec.securityContext.fsGroup).toBe(spec.securityContext.runAsUser);
    const mount = spec.containers[0]?.volumeMounts.find(({ name }) => name === volume?.name);
    const directory = mount?.mountPath ?? "";
    expect(configuration.extenders[0]).toMatchObject({
      enableHTTPS: true,
      tlsConfig: {
        serverName: EXTENDER_CERTIFICATE_NAME,
        caFile: `${directory}/ca.crt`,
        certFile: `${directory}/tls.crt`,
        keyFile: `${directory}/tls.key`,
      },
    });
  });

  it("leads by its own lease, in its own namespace, and may use no other", () => {
    expect(configuration.leaderElection).toEqual({ leaderElect: true, resourceName: "tidemark-scheduler" });
    const [container] = podSpecOf(manifests, "scheduler").containers;
    expect(container?.["command"]).toContain("--leader-elect-resource-namespace=$(POD_NAMESPACE)");
    const role = added.find(({ kind, metadata }) => kind === "Role" && metadata.name === "scheduler");
    expect(role?.rules?.flatMap(({ resourceNames = [] }) => resourceNames)).toEqual(["tidemark-scheduler"]);
  });

  it("runs without root, capabilities and a writable image, in the version that a test cluster's is built from", () => {
    const { securityContext, containers } = podSpecOf(manifests, "scheduler");
    expect(securityContext).toMatchObject({ runAsNonRoot: true, seccompProfile: { type: "RuntimeDefault" } });
    expect(containers.map((container) => container.securityContext)).toEqual([
      { allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: { drop: ["ALL"] } },
    ]);
    const version = /k8s\.io\/kubernetes (v\S+)/.exec(readFileSync("test/tools/kubernetes/go.mod", "utf8"))?.[1];
    expect(containers[0]?.image.replace(/@.*/, "")).toBe(`registry.k8s.io/kube-scheduler:${version}`);
  });

  it("is what docs/placement.md gives a default scheduler, but for name, lease and the Service's full name", () => {
    const snippets = readFileSync("docs/placement.md", "utf8").split("```yaml\n").slice(1);
    const snippet = snippets.find((one) => one.includes("kind: KubeSchedulerConfiguration"))?.split("```")[0] ?? "";
    const { leaderElection: _lease, profiles: _names, ...rest } = configuration;
    const told = parse(snippet) as SchedulerConfiguration;
    const [extender] = told.extenders;
    const urlPrefix = rest.extenders[0]?.urlPrefix.replace("//extender:", "//extender.tidemark-system.svc:");
    expect(told).toEqual({ ...rest, extenders: [{ ...rest.extenders[0], urlPrefix }] });
    expect(extender?.urlPrefix).toContain(".tidemark-system.svc");
  });
});
