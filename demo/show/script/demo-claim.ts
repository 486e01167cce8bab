// The demo's claim and policy in the control plane: what a user would do with kubectl apply, and what the objects say back.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { parse } from "yaml";
import { fsidOf, volumeHandleOf } from "../../../src/contracts/identity.ts";
import { VOLUME_POLICIES, type VolumePolicySpec } from "../../../src/contracts/kinds/volume-policy.ts";
import { PERSISTENT_VOLUME_CLAIMS } from "../../../src/contracts/kubernetes/resources.ts";
import { formatQuantity } from "../../../src/contracts/quantities/quantity.ts";
import type { ApplyConfiguration, KubeClient } from "../../../src/platform/kube/client/client.ts";

export const CLAIM = { namespace: "default", name: "demo" } as const;
/** "false" asks the standalone kubelet to unmount the claim's volume. */
const MOUNT_ANNOTATION = "standalone.tidemark.dev/mount";
const STORAGE_CLASS = "tidemark-loop";
const OPTIONS = { fieldManager: "tidemark-demo", force: true } as const;

/** A policy as its file has it. */
export type PolicyDocument = ApplyConfiguration & { spec: VolumePolicySpec };

export interface DemoVolume {
  readonly fsid: string;
  readonly handle: string;
  /** Where a pod would see it. */
  readonly mountPath: string;
}

export function readPolicy(file: string): PolicyDocument {
  return parse(readFileSync(file, "utf8")) as PolicyDocument;
}

/** Undefined until the claim is bound. */
export async function findVolume(client: KubeClient, kubeletDirectory: string): Promise<DemoVolume | undefined> {
  const claim = await client.get(PERSISTENT_VOLUME_CLAIMS, CLAIM);
  const uid = claim?.metadata.uid;
  const volumeName = claim?.spec.volumeName;
  if (uid === undefined || volumeName === undefined) return undefined;
  const mountPath = join(kubeletDirectory, "pods", uid, "volumes/kubernetes.io~csi", volumeName, "mount");
  return { fsid: fsidOf(uid), handle: volumeHandleOf(uid), mountPath };
}

export async function applyClaim(client: KubeClient, requestBytes: number): Promise<void> {
  await client.apply("demo/apply-claim", PERSISTENT_VOLUME_CLAIMS, claimConfiguration(requestBytes, true), OPTIONS);
}

/** Asks for the volume to be unmounted, or mounted again, as the end and the start of its pod would. */
export async function setMounted(client: KubeClient, requestBytes: number, mounted: boolean): Promise<void> {
  await client.apply("demo/mount-claim", PERSISTENT_VOLUME_CLAIMS, claimConfiguration(requestBytes, mounted), OPTIONS);
}

function claimConfiguration(requestBytes: number, mounted: boolean): ApplyConfiguration {
  return {
    apiVersion: "v1",
    kind: "PersistentVolumeClaim",
    metadata: { ...CLAIM, annotations: { [MOUNT_ANNOTATION]: String(mounted) } },
    spec: {
      accessModes: ["ReadWriteOnce"],
      storageClassName: STORAGE_CLASS,
      resources: { requests: { storage: formatQuantity(requestBytes) } },
    },
  };
}

/** Applies the policy to the claim's namespace. Returns the generation that it then has. */
export async function applyPolicy(client: KubeClient, policy: PolicyDocument): Promise<number> {
  const metadata = { ...policy.metadata, namespace: CLAIM.namespace };
  const applied = await client.apply("demo/apply-policy", VOLUME_POLICIES, { ...policy, metadata }, OPTIONS);
  return applied.metadata.generation ?? 0;
}

/** Undefined until the engine has read it once. */
export async function observedGeneration(client: KubeClient, policy: PolicyDocument): Promise<number | undefined> {
  const name = { namespace: CLAIM.namespace, name: policy.metadata.name };
  return (await client.get(VOLUME_POLICIES, name))?.status?.observedGeneration;
}
