// A StorageClass of spans, a claim and a pod that uses it, as suites of a cluster apply them.
import { MEMBER_CLASS } from "../member-driver/config.ts";

export function spanClass(
  name: string,
  parameters: Readonly<Record<string, string>> = {},
  volumeBindingMode: "WaitForFirstConsumer" | "Immediate" = "WaitForFirstConsumer",
): object {
  return {
    apiVersion: "storage.k8s.io/v1",
    kind: "StorageClass",
    metadata: { name },
    provisioner: "span.tidemark.dev",
    parameters: { backend: "span", memberStorageClassName: MEMBER_CLASS, strategy: "AddMember", ...parameters },
    allowVolumeExpansion: true,
    volumeBindingMode,
  };
}

export function claimOf(name: string, storageClassName: string, storage: string): object {
  return {
    apiVersion: "v1",
    kind: "PersistentVolumeClaim",
    metadata: { name },
    spec: { storageClassName, accessModes: ["ReadWriteOnce"], resources: { requests: { storage } } },
  };
}

/** It waits to be ended, with the claim at /data. */
export function claimingPod(name: string, image: string, claimName: string): object {
  const command = ["sh", "-c", "trap exit TERM; while :; do sleep 1; done"];
  const volumeMounts = [{ name: "data", mountPath: "/data" }];
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name },
    spec: {
      terminationGracePeriodSeconds: 1,
      containers: [{ name: "shell", image, imagePullPolicy: "IfNotPresent", command, volumeMounts }],
      volumes: [{ name: "data", persistentVolumeClaim: { claimName } }],
    },
  };
}
