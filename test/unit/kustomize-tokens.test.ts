// Which containers have a token for the API server, and what they ask it. One that asks nothing has none: who takes it over has not what
// the others of its pod may do.
import { describe, expect, it } from "@jest/globals";
import {
  type Container,
  hasKubectl,
  kustomizeWith,
  type Manifest,
  manifestsOf,
  type PodSpec,
} from "../harness/kustomize.ts";

const describeWithKubectl = hasKubectl() ? describe : describe.skip;
/** Where every client in a pod looks. */
const PLACE = "/var/run/secrets/kubernetes.io/serviceaccount";

/** "pod/container": why it has a token. */
const ASKING = {
  "agent/agent": "reads its node's layouts, and writes their status",
  "ca-publisher/ca-publisher": "writes the CA into the webhook's configuration",
  "extender/extender": "reads pods, claims and nodes",
  "operator/operator": "makes volumes",
  "operator/csi-provisioner": "reads claims, and writes PersistentVolumes",
  "operator/csi-resizer": "reads claims, and writes their capacity",
  "operator/csi-snapshotter": "reads and writes the contents of snapshots",
  "operator/span-csi-provisioner": "reads claims, and writes PersistentVolumes",
  "operator/span-csi-resizer": "reads claims, and writes their capacity",
  "operator/span-csi-attacher": "reads and writes VolumeAttachments",
  "policy-ca-publisher/policy-ca-publisher": "writes the CA into the policy webhook's configuration",
  "policy-engine/policy-engine": "writes targets",
  "scheduler/scheduler": "binds pods",
} as const;

/** "pod/container": what it works with instead. */
const SILENT = { "agent/lvmd": "its socket, its file of settings, and LVM" } as const;

interface Source {
  readonly serviceAccountToken?: { readonly audience?: string; readonly expirationSeconds?: number };
  readonly configMap?: { readonly name: string };
  readonly downwardAPI?: unknown;
}

/** Of the volumes that the container mounts, by the path of the mount. */
function projectedIn({ volumes = [] }: PodSpec, { volumeMounts = [] }: Container): Map<string, readonly Source[]> {
  const sources = new Map(
    volumes.map(({ name, ["projected"]: projected }) => [
      name,
      (projected as { sources: Source[] } | undefined)?.sources,
    ]),
  );
  return new Map(volumeMounts.map(({ name, mountPath }) => [mountPath, sources.get(name) ?? []]));
}

/** For the API server; one with an audience of its own is no good there. */
function hasToken(pod: PodSpec, container: Container): boolean {
  const mounted = [...projectedIn(pod, container).values()].flat();
  const isGiven = mounted.some(({ serviceAccountToken: token }) => token !== undefined && token.audience === undefined);
  return isGiven || pod["automountServiceAccountToken"] !== false;
}

function containersOf(manifests: readonly Manifest[]): [string, PodSpec, Container][] {
  return manifests.flatMap(({ metadata, spec }) => {
    const pod = spec?.template?.spec;
    const initial = (pod?.["initContainers"] ?? []) as readonly Container[];
    return pod === undefined
      ? []
      : [...initial, ...pod.containers].map((one): [string, PodSpec, Container] => [
          `${metadata.name}/${one.name}`,
          pod,
          one,
        ]);
  });
}

const render = (directory: string, components: readonly string[] = []) =>
  hasKubectl() ? containersOf(manifestsOf(kustomizeWith(directory, {}, components))) : [];

describeWithKubectl("of all containers that Tidemark installs", () => {
  const components = ["lvm", "placement", "policy-admission", "snapshots", "metrics-authentication"].map(
    (name) => `components/${name}`,
  );
  const all = render("base", components);

  it("each is known", () => {
    expect(all.map(([name]) => name).sort()).toEqual([...Object.keys(ASKING), ...Object.keys(SILENT)].sort());
  });

  it.each(Object.entries(ASKING))("%s has a token: it %s", (asked) => {
    const [, pod, container] = all.find(([name]) => name === asked) ?? [];
    expect(pod && container && hasToken(pod, container)).toBe(true);
  });

  it.each(Object.entries(SILENT))("%s has none, of no audience: all it needs are %s", (silent) => {
    const [, pod, container] = all.find(([name]) => name === silent) ?? [];
    if (pod === undefined || container === undefined) throw new Error(`there is no ${silent}`);
    expect(hasToken(pod, container)).toBe(false);
    expect([...projectedIn(pod, container).values()].flat()).toEqual([]);
    // kubelet keeps there what it mounts for all pods of the node, and agents what opens the policy-engine.
    const paths = (container.volumeMounts ?? []).map(({ mountPath }) => mountPath);
    expect(paths.filter((path) => /kubelet|secrets|engine/.test(path))).toEqual([]);
  });

  it.each(["base", "overlays/lvm", "overlays/e2e", "overlays/e2e-lvm"])(
    "the agent's in %s is like any other pod's, for an hour",
    (directory) => {
      const [, pod, container] = render(directory).find(([name]) => name === "agent/agent") ?? [];
      if (pod === undefined || container === undefined) throw new Error("there is no agent");
      expect(projectedIn(pod, container).get(PLACE)).toEqual([
        { serviceAccountToken: { path: "token", expirationSeconds: 3600 } },
        { configMap: { name: "kube-root-ca.crt", items: [{ key: "ca.crt", path: "ca.crt" }] } },
        { downwardAPI: { items: [{ path: "namespace", fieldRef: { fieldPath: "metadata.namespace" } }] } },
      ]);
    },
  );
});
