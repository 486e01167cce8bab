// Pods with claims, and AdmissionReviews of them as the API server sends them.
import type { Pod, PodVolume } from "../../src/contracts/kubernetes/resources.ts";

export const ofClaim = (claimName: string): PodVolume => ({ name: claimName, persistentVolumeClaim: { claimName } });

export const ephemeral = (name: string, storageClassName: string | undefined, storage: string): PodVolume => ({
  name,
  ephemeral: {
    volumeClaimTemplate: {
      spec: { accessModes: ["ReadWriteOnce"], storageClassName, resources: { requests: { storage } } },
    },
  },
});

/** As it comes to admission, defaults filled in. */
export function buildPod(
  volumes: readonly PodVolume[],
  fields: Partial<Pod["spec"]> & { readonly annotations?: Record<string, string> } = {},
): Pod {
  const { annotations, ...spec } = fields;
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name: "web", namespace: "shop", ...(annotations && { annotations }) },
    spec: {
      schedulerName: "default-scheduler",
      containers: [
        { name: "first", image: "none", resources: {} },
        { name: "second", image: "none" },
      ],
      volumes: [...volumes],
      ...spec,
    },
  };
}

export function buildReview(object: unknown, request: object = {}): Record<string, unknown> {
  const resource = { group: "", version: "v1", resource: "pods" };
  return {
    apiVersion: "admission.k8s.io/v1",
    kind: "AdmissionReview",
    request: { uid: "705ab4f5", namespace: "shop", operation: "CREATE", resource, oldObject: null, object, ...request },
  };
}
