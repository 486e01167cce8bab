import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { describe, expect, it } from "@jest/globals";
import { parse } from "yaml";
import { readConfig as readAgentConfig } from "../../src/agent/config.ts";
import { LOCAL } from "../../src/contracts/csi/driver.ts";
import { LOCAL_DRIVER, RELEASE } from "../../src/contracts/names.ts";
import { readConfig as readOperatorConfig } from "../../src/operator/config.ts";
import { parseVolumeParameters } from "../../src/operator/csi/requests/volume-parameters.ts";
import { readConfig as readEngineConfig } from "../../src/policy-engine/config.ts";
import {
  type Container,
  hasKubectl,
  kustomize,
  kustomizeWith,
  type Manifest,
  manifestsOf,
  podSpecOf,
} from "../harness/kustomize.ts";

const DEFAULT_NAMESPACE = "tidemark-system";
const OWN_NAMESPACE = "storage-team";
const DIGEST = `sha256:${"0".repeat(64)}`;
const PROCESSES = ["agent", "operator", "policy-engine"] as const;
const CLUSTER_SCOPED = new Set(["Namespace", "StorageClass", "ClusterRole", "ClusterRoleBinding"]);

const found = hasKubectl();
if (!found) process.stderr.write("NOT TESTED: kubectl is not installed, so no kustomization was built\n");
const describeWithKubectl = found ? describe : describe.skip;

it("kubectl is there where everything must be tested", () => {
  expect(found || process.env["CI"] === undefined).toBe(true);
});

describeWithKubectl("the minimal overlay", () => {
  const text = found ? kustomize("overlays/minimal") : "";
  const manifests = manifestsOf(text);
  const containers = manifests.flatMap(({ spec }) => spec?.template?.spec.containers ?? []);
  const containerOf = (name: (typeof PROCESSES)[number]): Container => {
    const container = podSpecOf(manifests, name).containers.find((candidate) => candidate.name === name);
    if (container === undefined) throw new Error(`no container ${name}`);
    return container;
  };

  it("installs exactly this, on top of the foundation", () => {
    const names = manifests.map(({ kind, metadata }) => `${kind} ${metadata.name}`).sort();
    expect(names).toEqual([
      "ClusterRole tidemark-agent",
      "ClusterRole tidemark-csi-attacher",
      "ClusterRole tidemark-csi-provisioner",
      "ClusterRole tidemark-csi-resizer",
      "ClusterRole tidemark-operator",
      "ClusterRole tidemark-policy-engine",
      "ClusterRoleBinding tidemark-agent",
      "ClusterRoleBinding tidemark-csi-attacher",
      "ClusterRoleBinding tidemark-csi-provisioner",
      "ClusterRoleBinding tidemark-csi-resizer",
      "ClusterRoleBinding tidemark-operator",
      "ClusterRoleBinding tidemark-policy-engine",
      "DaemonSet agent",
      "Deployment operator",
      "Deployment policy-engine",
      "Namespace tidemark-system",
      "PodDisruptionBudget operator",
      "PodDisruptionBudget policy-engine",
      "ResourceQuota critical-pods",
      "Role agent",
      "Role csi-sidecars",
      "Role operator",
      "Role policy-engine",
      "RoleBinding agent",
      "RoleBinding csi-sidecars",
      "RoleBinding operator",
      "RoleBinding policy-engine",
      "Secret tidemark-agent-tls",
      "Secret tidemark-policy-engine-ca",
      "Secret tidemark-policy-engine-tls",
      "Service policy-engine",
      "ServiceAccount agent",
      "ServiceAccount operator",
      "ServiceAccount policy-engine",
      "StorageClass tidemark-loop",
    ]);
  });

  it("names every image by release, ours by the one that the code tells CSI", () => {
    expect(containers.map(({ image }) => image.replace(/@.*/, "")).sort()).toEqual([
      "registry.k8s.io/sig-storage/csi-attacher:v4.12.0",
      "registry.k8s.io/sig-storage/csi-provisioner:v6.3.0",
      "registry.k8s.io/sig-storage/csi-provisioner:v6.3.0",
      "registry.k8s.io/sig-storage/csi-resizer:v2.2.0",
      "registry.k8s.io/sig-storage/csi-resizer:v2.2.0",
      `tidemark:${RELEASE}`,
      `tidemark:${RELEASE}`,
      `tidemark:${RELEASE}`,
    ]);
  });

  it("has the sidecars' versions of the Go module that a test cluster's are built from", () => {
    const module = readFileSync("test/tools/kubernetes/go.mod", "utf8");
    for (const sidecar of ["attacher", "provisioner", "resizer"]) {
      const version = new RegExp(`external-${sidecar}/v\\d+ (v\\S+)`).exec(module)?.[1];
      const images = containers
        .map(({ image }) => image.replace(/@.*/, ""))
        .filter((image) => image.includes(`csi-${sidecar}:`));
      expect(new Set(images)).toEqual(new Set([`registry.k8s.io/sig-storage/csi-${sidecar}:${version}`]));
    }
  });

  it("has no text that Flux would substitute", () => {
    expect(text).not.toContain("${");
  });

  it("gives the agent alone privileges and the node's directories", () => {
    for (const name of PROCESSES) {
      const { volumes = [], containers: own, hostNetwork, hostPID, hostIPC } = podSpecOf(manifests, name);
      expect([hostNetwork, hostPID, hostIPC]).toEqual([undefined, undefined, undefined]);
      expect(volumes.some((volume) => "hostPath" in volume)).toBe(name === "agent");
      expect(own.some(({ securityContext }) => securityContext?.["privileged"] === true)).toBe(name === "agent");
    }
  });

  it.each(["operator", "policy-engine"])(
    "runs every container of the %s without root, capabilities and a writable image",
    (name) => {
      const { securityContext, containers: own } = podSpecOf(manifests, name);
      expect(securityContext).toMatchObject({ runAsNonRoot: true, seccompProfile: { type: "RuntimeDefault" } });
      for (const container of own)
        expect(container.securityContext).toEqual({
          allowPrivilegeEscalation: false,
          readOnlyRootFilesystem: true,
          capabilities: { drop: ["ALL"] },
        });
    },
  );

  it.each(PROCESSES)("asks the %s for its health on a port that it serves", (name) => {
    const container = containerOf(name);
    const { startupProbe, livenessProbe, readinessProbe } = container;
    expect(startupProbe?.httpGet).toEqual({ path: "/healthz", port: "metrics" });
    expect(livenessProbe?.httpGet).toEqual({ path: "/healthz", port: "metrics" });
    expect(readinessProbe?.httpGet).toEqual({ path: "/readyz", port: "metrics" });
    const port = container.ports?.find((candidate) => candidate.name === "metrics")?.containerPort;
    expect(port).toBe(readConfigOf(name, container).httpPort);
  });

  it.each(PROCESSES)("tells the %s where it runs by the downward API alone", (name) => {
    const given = containerOf(name).env?.filter((variable) => "valueFrom" in variable) ?? [];
    expect(given.map((variable) => variable.name)).toEqual(
      { agent: ["POD_NAMESPACE", "NODE_NAME"], operator: ["POD_NAMESPACE", "POD_SERVICE_ACCOUNT"] }[name as string] ?? [
        "POD_NAMESPACE",
      ],
    );
  });

  it("gives the agent's Node.js options that this Node.js takes", () => {
    const options = containerOf("agent").env?.find((variable) => variable.name === "NODE_OPTIONS")?.value ?? "";
    const limitOf = (environment: Record<string, string>): number => {
      const script = 'console.log(require("node:v8").getHeapStatistics().heap_size_limit / 2 ** 20)';
      return Number(execFileSync(process.execPath, ["-e", script], { env: environment, encoding: "utf8" }));
    };
    // Of the limit, the space of young objects alone is smaller: no cluster's layouts are too many for the old ones.
    const savedMiB = limitOf({}) - limitOf({ NODE_OPTIONS: options });
    expect(savedMiB).toBeGreaterThan(8);
    expect(savedMiB).toBeLessThan(64);
  });

  it("has operator and sidecars meet on one socket of each driver, under one user", () => {
    const { containers: own, volumes, securityContext } = podSpecOf(manifests, "operator");
    const { csiSocket, spanCsiSocket } = readOperatorConfig((containerOf("operator").args ?? []).slice(1), {});
    const metAt = (socket: string | undefined) =>
      own.filter(({ args = [] }) => args.includes(`--csi-address=${socket}`)).map(({ name }) => name);
    expect(metAt(csiSocket)).toEqual(["csi-provisioner", "csi-resizer"]);
    expect(metAt(spanCsiSocket)).toEqual(["span-csi-provisioner", "span-csi-resizer", "span-csi-attacher"]);
    expect(own).toHaveLength(6);
    for (const { volumeMounts } of own) expect(volumeMounts).toEqual([{ name: "run", mountPath: "/run/tidemark" }]);
    expect(volumes).toEqual([{ name: "run", emptyDir: { medium: "Memory", sizeLimit: "1Mi" } }]);
    expect(securityContext?.["runAsUser"]).toBe(65532);
  });

  it("keeps on the node, at the same path, whatever the agent or kubelet find there again", () => {
    const container = containerOf("agent");
    const config = readAgentConfig((container.args ?? []).slice(1), { POD_NAMESPACE: "a", NODE_NAME: "b" });
    const { volumes = [] } = podSpecOf(manifests, "agent");
    const kept = (container.volumeMounts ?? [])
      .filter(({ name, mountPath }) =>
        volumes.some(
          (volume) => volume.name === name && (volume["hostPath"] as { path?: string } | undefined)?.path === mountPath,
        ),
      )
      .map(({ mountPath }) => mountPath);
    const { csiSocket, registrationDirectory = "", stateDirectory, memberDirectory, kubeletDirectory } = config;
    for (const path of [csiSocket, registrationDirectory, stateDirectory, memberDirectory, kubeletDirectory, "/dev"])
      expect(kept.filter((mount) => path === mount || path.startsWith(`${mount}/`))).toHaveLength(1);
  });

  it("propagates the agent's mounts to the pods", () => {
    expect(containerOf("agent").volumeMounts).toContainEqual({
      name: "kubelet",
      mountPath: "/var/lib/kubelet",
      mountPropagation: "Bidirectional",
    });
  });

  it("has a class that our own driver makes volumes of", () => {
    const storageClass = manifests.find(({ kind }) => kind === "StorageClass") as Manifest & {
      provisioner: string;
      parameters: Record<string, string>;
    };
    expect(storageClass.provisioner).toBe(LOCAL_DRIVER);
    const claim = { "csi.storage.k8s.io/pvc/name": "data", "csi.storage.k8s.io/pvc/namespace": "shop" };
    expect(parseVolumeParameters({ ...storageClass.parameters, ...claim }, LOCAL)).toMatchObject({
      backend: "loop",
      fsType: "btrfs",
    });
  });
});

describeWithKubectl("somebody's own overlay over the minimal one", () => {
  const text = found
    ? kustomizeWith("overlays/minimal", {
        namespace: OWN_NAMESPACE,
        images: [{ name: "tidemark", newName: "registry.example/tidemark", digest: DIGEST }],
      })
    : "";
  const manifests = manifestsOf(text);

  it("leaves the default namespace nowhere", () => {
    expect(text).not.toContain(DEFAULT_NAMESPACE);
    expect(manifests.find(({ kind }) => kind === "Namespace")?.metadata.name).toBe(OWN_NAMESPACE);
    const elsewhere = (object: Manifest) =>
      !CLUSTER_SCOPED.has(object.kind) && object.metadata.namespace !== OWN_NAMESPACE;
    expect(manifests.filter(elsewhere).map(({ kind, metadata }) => `${kind} ${metadata.name}`)).toEqual([]);
  });

  it("binds every role to a service account that is there", () => {
    const accounts = manifests.filter(({ kind }) => kind === "ServiceAccount");
    const subjects = manifests.flatMap((object) => object.subjects ?? []);
    expect(subjects).toHaveLength(10);
    for (const { name, namespace } of subjects)
      expect(
        accounts.filter(({ metadata }) => metadata.name === name && metadata.namespace === namespace),
      ).toHaveLength(1);
  });

  it("replaces our image in all three processes by one with a digest", () => {
    const images = PROCESSES.map(
      (name) => podSpecOf(manifests, name).containers.find((one) => one.name === name)?.image,
    );
    expect(new Set(images)).toEqual(new Set([`registry.example/tidemark@${DIGEST}`]));
  });
});

describeWithKubectl("the folder of policies", () => {
  it("can be synced as it is, into a team's namespace", () => {
    const manifests = found ? manifestsOf(kustomizeWith("../policies", { namespace: "team" })) : [];
    expect(manifests.map(({ kind, metadata }) => `${kind} ${metadata.namespace}/${metadata.name}`)).toEqual([
      "VolumePolicy team/extend-at-80-shrink-below-30",
    ]);
  });
});

describeWithKubectl("the e2e overlay", () => {
  it("is the minimal one but for the sidecars' tags", () => {
    const [minimal, e2e] = ["overlays/minimal", "overlays/e2e"].map((directory) => (found ? kustomize(directory) : ""));
    const { images } = parse(readFileSync("kustomize/overlays/e2e/kustomization.yaml", "utf8")) as {
      images: { name: string; newTag: string }[];
    };
    expect(images).toHaveLength(3);
    const untagged = (text = ""): string => text.replaceAll(/(sig-storage\/[a-z-]+):\S+/g, "$1");
    expect(untagged(e2e)).toBe(untagged(minimal));
    for (const { name, newTag } of images) expect(e2e).toContain(`image: ${name}:${newTag}\n`);
  });
});

function readConfigOf(name: (typeof PROCESSES)[number], { args = [] }: Container): { httpPort: number } {
  expect(args[0]).toBe(name);
  const environment = { POD_NAMESPACE: "a", NODE_NAME: "b" };
  switch (name) {
    case "agent":
      return readAgentConfig(args.slice(1), environment);
    case "operator":
      return readOperatorConfig(args.slice(1), environment);
    case "policy-engine":
      return readEngineConfig(args.slice(1), environment);
  }
}
