// A pod of busybox, as tests of a cluster need it.
import type { KubeObject, Resource } from "../../src/kube/object.ts";
import type { PodVolume } from "../../src/kube/resources.ts";
import type { ClusterUnderTest } from "./cluster-under-test.ts";

export interface Pod extends KubeObject {
  spec: {
    nodeName?: string;
    schedulerName?: string;
    restartPolicy?: "Never" | "Always";
    terminationGracePeriodSeconds?: number;
    containers: { name: string; image: string; imagePullPolicy?: string; command: string[]; ports?: object[] }[];
    volumes?: PodVolume[];
  };
  status?: {
    phase?: "Pending" | "Running" | "Succeeded" | "Failed" | "Unknown";
    podIP?: string;
    conditions?: { type: string; status: "True" | "False" | "Unknown"; reason?: string; message?: string }[];
    containerStatuses?: {
      containerID?: string;
      restartCount?: number;
      state?: { terminated?: { exitCode: number; message?: string } };
    }[];
  };
}

export const PODS: Resource<Pod> = { group: "", version: "v1", plural: "pods", kind: "Pod", namespaced: true };

/** One that runs `script` on the node, once; undefined: on the one that the scheduler chooses. */
export function scriptPod(
  { namespace, image }: ClusterUnderTest,
  name: string,
  node: string | undefined,
  script: string,
): Pod {
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { namespace, name, labels: { app: name } },
    spec: {
      nodeName: node,
      restartPolicy: "Never",
      terminationGracePeriodSeconds: 0,
      containers: [{ name: "shell", image, imagePullPolicy: "IfNotPresent", command: ["sh", "-c", script] }],
    },
  };
}
