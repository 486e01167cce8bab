// What a cluster has once for the snapshots of all drivers, from the release that its programs are built of: the definitions of
// snapshot.storage.k8s.io and the snapshot-controller. And csi-snapshotter's image, which Tidemark's component names.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { parse } from "yaml";
import { programImage, sidecarImages } from "../../scripts/image/sidecar-images.ts";
import type { KubeObject, Resource } from "../../src/contracts/kubernetes/object.ts";
import { builtTools, moduleDirectory } from "../cluster/go-tools.ts";
import { applyObject } from "./apply-object.ts";
import { type ClusterUnderTest, clusterOf } from "./cluster-under-test.ts";
import { give, SNAPSHOTS_OVERLAY } from "./installed-tidemark.ts";

const RELEASE_MODULE = "github.com/kubernetes-csi/external-snapshotter/v8";
const CLIENT_MODULE = "github.com/kubernetes-csi/external-snapshotter/client/v8";
const CONTROLLER = "snapshot-controller";
const CONTROLLER_IMAGE = `tidemark.test/${CONTROLLER}:1`;
export const CONTROLLER_NAMESPACE = "kube-system";

interface SnapshotError {
  readonly message?: string;
}

export interface VolumeSnapshot extends KubeObject {
  readonly status?: {
    readonly readyToUse?: boolean;
    readonly boundVolumeSnapshotContentName?: string;
    readonly error?: SnapshotError;
  };
}

export interface VolumeSnapshotContent extends KubeObject {
  readonly spec: { readonly deletionPolicy: string; readonly volumeSnapshotRef: { readonly name?: string } };
  readonly status?: { readonly readyToUse?: boolean; readonly error?: SnapshotError };
}

function resource<T extends KubeObject>(plural: string, kind: string, namespaced: boolean): Resource<T> {
  return { group: "snapshot.storage.k8s.io", version: "v1", plural, kind, namespaced };
}

export const VOLUME_SNAPSHOTS = resource<VolumeSnapshot>("volumesnapshots", "VolumeSnapshot", true);
export const VOLUME_SNAPSHOT_CONTENTS = resource<VolumeSnapshotContent>(
  "volumesnapshotcontents",
  "VolumeSnapshotContent",
  false,
);

/** Before Tidemark is installed: its sidecars look for the definitions when they start. */
export async function giveSnapshots(tested: ClusterUnderTest): Promise<void> {
  const cluster = clusterOf(tested);
  const programs = await builtTools("kubernetes", () => undefined);
  const image = programImage(CONTROLLER_IMAGE, join(programs, CONTROLLER));
  await give(cluster, [...sidecarImages(programs, SNAPSHOTS_OVERLAY), image]);
  const definitions = join(await moduleDirectory("kubernetes", CLIENT_MODULE), "config/crd");
  tested.afterwards(() => tested.kubectl("delete", "--kustomize", definitions, "--timeout=120s"));
  await tested.kubectl("apply", "--server-side", "--kustomize", definitions);
  await tested.kubectl("wait", "--for=condition=Established", "--timeout=60s", "crd", "--all");
  const deployed = join(await moduleDirectory("kubernetes", RELEASE_MODULE), "deploy/kubernetes", CONTROLLER);
  const kubectl = (...args: string[]): Promise<string> => tested.kubectl("--namespace", CONTROLLER_NAMESPACE, ...args);
  const [roles, controller] = ["rbac", "setup"].map((part) => join(deployed, `${part}-${CONTROLLER}.yaml`));
  tested.afterwards(() => kubectl("delete", "--filename", roles ?? "", "--filename", controller ?? ""));
  await kubectl("apply", "--server-side", "--filename", roles ?? "");
  await applyObject({ kubectl }, controllerOf(controller ?? ""));
  await kubectl("rollout", "status", `deployment/${CONTROLLER}`, "--timeout=300s");
}

interface Deployment {
  spec: {
    replicas: number;
    minReadySeconds: number;
    template: { spec: { containers: { name: string; image: string }[] } };
  };
}

/** As released, but one of it, from the image on the nodes. */
function controllerOf(path: string): Deployment {
  const deployment = parse(readFileSync(path, "utf8")) as Deployment;
  const { containers } = deployment.spec.template.spec;
  for (const container of containers) container.image = CONTROLLER_IMAGE;
  Object.assign(deployment.spec, { replicas: 1, minReadySeconds: 0 });
  return deployment;
}
