// Stands in for kubelet: each bound claim is staged and published as if a pod used it, and released before the claim goes. The claim's
// protection finalizer is the record that it may be in use: set before staging, removed after unstaging.
import { rmdir } from "node:fs/promises";
import { dirname } from "node:path";
import {
  PERSISTENT_VOLUME_CLAIMS,
  type PersistentVolume,
  type PersistentVolumeClaim,
} from "../../src/contracts/kubernetes/resources.ts";
import type { KubeClient } from "../../src/platform/kube/client/client.ts";
import type { EventRecorder } from "../../src/platform/kube/events/events.ts";
import type { Outcome } from "../../src/platform/kube/queue/work-queue.ts";
import type { Effects } from "../../src/platform/process/effects/effects.ts";
import { createFilePort } from "../../src/platform/process/effects/file-port.ts";
import { boundVolume, type ClaimCaches } from "./claim-caches.ts";
import { describeCallError, type NodePort } from "./csi-client.ts";
import { stagingPathOf, targetPathOf } from "./kubelet-paths.ts";
import { capabilitiesOf } from "./volume-request.ts";

/** "false": no pod uses the claim. */
export const MOUNT_ANNOTATION = "standalone.tidemark.dev/mount";
const PVC_PROTECTION = "kubernetes.io/pvc-protection";

export interface KubeletOptions {
  readonly client: KubeClient;
  readonly caches: ClaimCaches;
  readonly node: NodePort;
  readonly events: EventRecorder;
  readonly effects: Effects;
  readonly kubeletDirectory: string;
}

export interface Kubelet {
  reconcile(key: string): Promise<Outcome>;
  /** Forgets what is published: a new agent is asked to stage and publish everything again, which changes nothing. */
  forget(): void;
}

export type MountPlan = "publish" | "release" | "nothing";

/** Pure. `volume` is the one that the claim is bound to. */
export function decideMount(
  claim: PersistentVolumeClaim,
  volume: PersistentVolume | undefined,
  isPublished: boolean,
): MountPlan {
  const { deletionTimestamp, annotations, finalizers } = claim.metadata;
  const isWanted = deletionTimestamp === undefined && annotations?.[MOUNT_ANNOTATION] !== "false";
  if (!isWanted) return finalizers?.includes(PVC_PROTECTION) ? "release" : "nothing";
  return volume === undefined || isPublished ? "nothing" : "publish";
}

export function createKubelet(options: KubeletOptions): Kubelet {
  const { caches, events } = options;
  const published = new Set<string>();

  const apply = async (plan: MountPlan, claim: PersistentVolumeClaim, volume: PersistentVolume | undefined) => {
    const uid = claim.metadata.uid ?? "";
    if (plan === "publish" && volume !== undefined) {
      await publish(options, claim, volume);
      published.add(uid);
    }
    if (plan === "release") {
      published.delete(uid);
      if (volume !== undefined) await release(options, claim, volume);
      await setFinalizers(options.client, claim, (all) => all.filter((one) => one !== PVC_PROTECTION));
    }
  };

  return {
    reconcile: async (key) => {
      const claim = caches.claims.store.get(key);
      if (claim === undefined) return "done";
      const volume = boundVolume(caches, claim);
      const plan = decideMount(claim, volume, published.has(claim.metadata.uid ?? ""));
      try {
        await apply(plan, claim, volume);
      } catch (error) {
        const reason = plan === "publish" ? "FailedMount" : "FailedUnmount";
        events.record(claim, "Warning", reason, describeCallError(error));
        throw error;
      }
      return "done";
    },
    forget: () => published.clear(),
  };
}

async function publish(options: KubeletOptions, claim: PersistentVolumeClaim, volume: PersistentVolume): Promise<void> {
  const { node, effects, kubeletDirectory, client } = options;
  const files = createFilePort(effects);
  const volumeId = volume.spec.csi?.volumeHandle ?? "";
  const stagingTargetPath = stagingPathOf(kubeletDirectory, volumeId);
  const targetPath = targetPathOf(kubeletDirectory, claim, volume);
  const [volumeCapability] = capabilitiesOf(claim, volume.spec.csi?.fsType ?? "", volume.spec.mountOptions ?? []);
  const volumeContext = volume.spec.csi?.volumeAttributes ?? {};
  const request = { volumeId, stagingTargetPath, volumeCapability, volumeContext, publishContext: {}, secrets: {} };

  await setFinalizers(client, claim, (all) => [...new Set([...all, PVC_PROTECTION])]);
  await files.makeDirectory("kubelet/make-staging-directory", stagingTargetPath);
  await node.stage(request);
  await files.makeDirectory("kubelet/make-pod-directory", dirname(targetPath));
  await node.publish({
    ...request,
    volumeContext: { ...volumeContext, ...podInfoOf(claim) },
    targetPath,
    readonly: false,
  });
}

/** As the CSIDriver asks for (podInfoOnMount); the claim stands for its pod. */
function podInfoOf({ metadata }: PersistentVolumeClaim): Record<string, string> {
  return {
    "csi.storage.k8s.io/pod.name": metadata.name,
    "csi.storage.k8s.io/pod.namespace": metadata.namespace ?? "",
    "csi.storage.k8s.io/pod.uid": metadata.uid ?? "",
    "csi.storage.k8s.io/serviceAccount.name": "default",
    "csi.storage.k8s.io/ephemeral": "false",
  };
}

async function release(options: KubeletOptions, claim: PersistentVolumeClaim, volume: PersistentVolume): Promise<void> {
  const { node, effects, kubeletDirectory } = options;
  const volumeId = volume.spec.csi?.volumeHandle ?? "";
  const stagingTargetPath = stagingPathOf(kubeletDirectory, volumeId);
  const targetPath = targetPathOf(kubeletDirectory, claim, volume);
  await node.unpublish({ volumeId, targetPath });
  await node.unstage({ volumeId, stagingTargetPath });
  await effects.run("kubelet/remove-directories", () =>
    removeEmpty([...upwards(targetPath, POD_LEVELS), ...upwards(stagingTargetPath, STAGING_LEVELS)]),
  );
}

/** mount, the volume's, kubernetes.io~csi, volumes, the pod's. */
const POD_LEVELS = 5;
/** globalmount, the volume's. */
const STAGING_LEVELS = 2;

function upwards(path: string, levels: number): string[] {
  return levels === 0 ? [] : [path, ...upwards(dirname(path), levels - 1)];
}

/** Plain rmdir: were something still mounted or stored there, it must fail rather than delete. */
async function removeEmpty(directories: readonly string[]): Promise<void> {
  for (const directory of directories) {
    try {
      await rmdir(directory);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
    }
  }
}

async function setFinalizers(
  client: KubeClient,
  claim: PersistentVolumeClaim,
  change: (finalizers: readonly string[]) => string[],
): Promise<void> {
  const { namespace, name, uid, resourceVersion } = claim.metadata;
  const before = claim.metadata.finalizers ?? [];
  const finalizers = change(before);
  if (finalizers.length === before.length) return;
  const metadata = { uid, resourceVersion, finalizers };
  await client.mergePatch("kubelet/claim-finalizers", PERSISTENT_VOLUME_CLAIMS, { namespace, name }, { metadata });
}
