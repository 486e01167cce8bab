// StorageClasses of both drivers, a claim and pods that use one, as suites of a cluster apply them.
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

/** Of filesystems on the nodes' own disks. */
export function localClass(name: string, parameters: Readonly<Record<string, string>> = {}): object {
  return {
    apiVersion: "storage.k8s.io/v1",
    kind: "StorageClass",
    metadata: { name },
    provisioner: "local.tidemark.dev",
    parameters: { backend: "loop", "csi.storage.k8s.io/fstype": "btrfs", ...parameters },
    allowVolumeExpansion: true,
    volumeBindingMode: "WaitForFirstConsumer",
  };
}

export function claimOf(
  name: string,
  storageClassName: string,
  storage: string,
  volumeMode: "Filesystem" | "Block" = "Filesystem",
): object {
  return {
    apiVersion: "v1",
    kind: "PersistentVolumeClaim",
    metadata: { name },
    spec: { storageClassName, volumeMode, accessModes: ["ReadWriteOnce"], resources: { requests: { storage } } },
  };
}

/** It waits to be ended, with the claim at /data. */
export function claimingPod(name: string, image: string, claimName: string): object {
  return waitingPod(name, image, claimName, { volumeMounts: [{ name: "data", mountPath: "/data" }] });
}

/** The same, with a raw block volume at /dev/data. */
export function devicePod(name: string, image: string, claimName: string): object {
  return waitingPod(name, image, claimName, { volumeDevices: [{ name: "data", devicePath: "/dev/data" }] });
}

function waitingPod(name: string, image: string, claimName: string, volumeUse: object): object {
  const command = ["sh", "-c", "trap exit TERM; while :; do sleep 1; done"];
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name },
    spec: {
      terminationGracePeriodSeconds: 1,
      containers: [{ name: "shell", image, imagePullPolicy: "IfNotPresent", command, ...volumeUse }],
      volumes: [{ name: "data", persistentVolumeClaim: { claimName } }],
    },
  };
}

/** It runs the script once, with a generic ephemeral volume for one pod at /scratch, and is Failed where a command of it fails. */
export function ephemeralPod(
  name: string,
  image: string,
  script: string,
  storageClassName: string,
  storage: string,
): object {
  const claim = { storageClassName, accessModes: ["ReadWriteOncePod"], resources: { requests: { storage } } };
  const volumeMounts = [{ name: "scratch", mountPath: "/scratch" }];
  const command = ["sh", "-ec", script];
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name },
    spec: {
      restartPolicy: "Never",
      containers: [{ name: "shell", image, imagePullPolicy: "IfNotPresent", command, volumeMounts }],
      volumes: [{ name: "scratch", ephemeral: { volumeClaimTemplate: { spec: claim } } }],
    },
  };
}
