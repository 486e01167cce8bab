// A pod of busybox, as tests of a cluster need it.
import type { KubeObject, Resource } from "../../src/contracts/kubernetes/object.ts";
import type { PodVolume } from "../../src/contracts/kubernetes/resources.ts";
import type { ClusterUnderTest } from "./cluster-under-test.ts";

export interface Pod extends KubeObject {
  spec: {
    nodeName?: string | undefined;
    schedulerName?: string | undefined;
    restartPolicy?: "Never" | "Always" | undefined;
    terminationGracePeriodSeconds?: number | undefined;
    containers: {
      name: string;
      image: string;
      imagePullPolicy?: string | undefined;
      command: string[];
      ports?: object[] | undefined;
    }[];
    volumes?: PodVolume[] | undefined;
  };
  status?:
    | {
        phase?: "Pending" | "Running" | "Succeeded" | "Failed" | "Unknown" | undefined;
        podIP?: string | undefined;
        conditions?:
          | {
              type: string;
              status: "True" | "False" | "Unknown";
              reason?: string | undefined;
              message?: string | undefined;
            }[]
          | undefined;
        containerStatuses?:
          | {
              containerID?: string | undefined;
              restartCount?: number | undefined;
              state?: { terminated?: { exitCode: number; message?: string | undefined } | undefined } | undefined;
            }[]
          | undefined;
      }
    | undefined;
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
