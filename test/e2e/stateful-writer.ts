// A StatefulSet of one pod that keeps what it is told to write, with a checksum of each file beside it, and its claim.
import { waitFor } from "../harness/wait-for.ts";
import type { ClusterUnderTest } from "./cluster-under-test.ts";

export const WRITER = "writer";
export const WRITER_POD = `${WRITER}-0`;
export const WRITER_CLAIM = `data-${WRITER_POD}`;
const LIMIT_MS = 240_000;

/** To be applied; as the documentation shows it to users. */
export function statefulWriter(
  image: string,
  storageClassName: string,
  request: string,
  claimAnnotations: Readonly<Record<string, string>> = {},
): object {
  return {
    apiVersion: "apps/v1",
    kind: "StatefulSet",
    metadata: { name: WRITER },
    spec: {
      serviceName: WRITER,
      selector: { matchLabels: { app: WRITER } },
      template: {
        metadata: { labels: { app: WRITER } },
        spec: {
          terminationGracePeriodSeconds: 1,
          containers: [
            {
              name: "shell",
              image,
              imagePullPolicy: "IfNotPresent",
              command: ["sh", "-c", "trap exit TERM; while :; do sleep 1; done"],
              volumeMounts: [{ name: "data", mountPath: "/data" }],
            },
          ],
        },
      },
      volumeClaimTemplates: [
        {
          metadata: { name: "data", annotations: claimAnnotations },
          spec: { storageClassName, accessModes: ["ReadWriteOnce"], resources: { requests: { storage: request } } },
        },
      ],
    },
  };
}

/** What runs in the pod. The pod's view is the one that counts. */
export interface Writer {
  /** Fresh random files of this size each, synced; their checksums are kept. */
  write(names: readonly string[], eachMiB?: number): Promise<void>;
  remove(names: readonly string[]): Promise<void>;
  /** Lines of `sha256sum -c` that do not say OK. */
  damaged(): Promise<string>;
  capacityMiB(): Promise<number>;
  running(): Promise<void>;
}

/** Of another pod, too, that has its volume at /data. */
export function writerIn({ kubectl, namespace }: ClusterUnderTest, pod: string = WRITER_POD): Writer {
  const shell = (script: string): Promise<string> =>
    kubectl("exec", pod, "--container", "shell", "--", "sh", "-ec", script);
  const capacityMiB = async (): Promise<number> => Number(await shell("df -m /data | awk 'NR == 2 { print $2 }'"));
  return {
    write: async (names, eachMiB = 16) => {
      for (const name of names)
        await shell(
          `cd /data; dd if=/dev/urandom of=${name} bs=1M count=${eachMiB} conv=fsync 2>/dev/null; sha256sum ${name} > ${name}.sum`,
        );
    },
    remove: async (names) => {
      await shell(`cd /data; rm ${names.flatMap((name) => [name, `${name}.sum`]).join(" ")}; sync`);
    },
    damaged: () => shell("cd /data; cat *.sum | sha256sum -c 2>&1 | grep -v ': OK$' || true"),
    capacityMiB,
    running: async () => {
      await waitFor(
        `pod ${namespace}/${pod} to run`,
        async () => ((await shell("echo here")) === "here\n" ? true : undefined),
        {
          limitMs: LIMIT_MS,
          intervalMs: 500,
          otherwise: async () => `${await kubectl("describe", "pod", pod)}\n${await kubectl("get", "events")}`,
        },
      );
    },
  };
}
