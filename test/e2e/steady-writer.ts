// A pod that writes for as long as it lives. The checksum of each file whose fsync returned stands outside of its volume, so that
// what was acknowledged is known whatever becomes of pod, node and API server. A pod that starts verifies all of them first.
import { mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { volumeHandleOf } from "../../src/contracts/identity.ts";
import { PERSISTENT_VOLUME_CLAIMS } from "../../src/contracts/kubernetes/resources.ts";
import { waitFor } from "../harness/wait-for.ts";
import { type ClusterUnderTest, clusterOf } from "./cluster-under-test.ts";
import { PODS, type Pod } from "./pod.ts";

export interface SteadyWriter {
  readonly name: string;
  /** To be applied: how its pod is run, and its claim. */
  readonly objects: readonly object[];
  /** Of its volume. */
  handle(): Promise<string>;
  /** Its pod, once one is Running and has verified what earlier ones wrote. */
  running(): Promise<Pod>;
  /** How many files have been acknowledged. */
  acknowledged(): number;
  /** What could not be written, or was not as it had been. */
  failures(): string;
  /** Lines of `sha256sum -c`, over all that was acknowledged, that do not say OK. */
  damaged(): Promise<string>;
  /** How many had been acknowledged when its pod was last asked to end. */
  acknowledgedWhenAsked(): number;
  /** And when it ended by itself after that, its time to stop over; 0: it has not, or was killed before. */
  acknowledgedAtItsEnd(): number;
}

export interface SteadyOptions {
  readonly run: "StatefulSet" | "Deployment" | "CronJob";
  readonly className: string;
  /** How long it goes on writing once it is asked to end. */
  readonly stopSeconds?: number;
}

const RUNS_LIMIT_MS = 240_000;
const GRACE_SECONDS = 30;
const VERIFY = "cd /data; [ ! -s /records/sums ] || sha256sum -c /records/sums 2>&1 | grep -v ': OK$' || true";

/**
 * The reference is taken before the file is written: nothing that the volume says of itself counts. Each pod has files of its own: a Job's
 * controller that was restarted may start a second pod, and on one node both have the volume.
 */
function writeOne(): string {
  return [
    "n=$((n + 1)); file=w$n-$run; dd if=/dev/urandom of=/tmp/block bs=64k count=2 2>/dev/null",
    "sum=$(sha256sum < /tmp/block)",
    "if dd if=/tmp/block of=/data/$file bs=64k conv=fsync 2>/dev/null && sync /data",
    'then echo "${sum%% *}  $file" >> /records/sums; else echo "$file could not be written" >> /records/failures; fi',
  ].join("\n");
}

function script(kind: SteadyOptions["run"], stopSeconds: number): string {
  const verify = `bad=$(${VERIFY}); [ -z "$bad" ] || { echo "at its start: $bad" >> /records/failures; exit 1; }`;
  const begin = `run=$(hostname)-$(date +%s)\ntouch /records/sums\n${verify}\nn=$(wc -l < /records/sums)`;
  if (kind === "CronJob") return `${begin}\n${writeOne()}`;
  const asked = `trap 'wc -l < /records/sums > /records/asked; end=$(($(date +%s) + ${stopSeconds}))' TERM`;
  return `end=\n${asked}\n${begin}\necho writing\nwhile [ -z "$end" ] || [ "$(date +%s)" -lt "$end" ]; do\n${writeOne()}\nsleep 0.3\ndone\nwc -l < /records/sums > /records/ended`;
}

/** In a cluster of ours, whose nodes share this machine's disk: records are there for a pod on any node, and for the test. */
export function steadyWriter(tested: ClusterUnderTest, name: string, options: SteadyOptions): SteadyWriter {
  const { client, kubectl, namespace } = tested;
  const records = join(clusterOf(tested).places.directory, "records", name);
  mkdirSync(records, { recursive: true });
  const text = (file: string): string => {
    try {
      return readFileSync(join(records, file), "utf8");
    } catch {
      return ""; // nothing was recorded yet
    }
  };
  const claimName = options.run === "StatefulSet" ? `data-${name}-0` : name;
  const podOfNow = async (): Promise<Pod | undefined> => {
    const { items } = await client.list(PODS, { namespace, labelSelector: `app=${name}` });
    const there = items.filter(({ metadata }) => metadata.deletionTimestamp === undefined);
    return there.find(({ status }) => status?.phase === "Running");
  };
  const running = (): Promise<Pod> =>
    waitFor(
      `the pod of ${name} to write`,
      async () => {
        const pod = await podOfNow();
        return pod !== undefined && (await kubectl("logs", pod.metadata.name)).includes("writing") ? pod : undefined;
      },
      {
        limitMs: RUNS_LIMIT_MS,
        intervalMs: 500,
        otherwise: async () =>
          `${text("failures")}\n${await kubectl("describe", "pod", "-l", `app=${name}`)}\n${await kubectl("get", "events")}`,
      },
    );
  return {
    name,
    objects: objectsOf(tested, name, claimName, records, options),
    handle: async () => {
      const claim = await client.get(PERSISTENT_VOLUME_CLAIMS, { namespace, name: claimName });
      return volumeHandleOf(claim?.metadata.uid ?? "");
    },
    running,
    acknowledged: () => text("sums").split("\n").length - 1,
    failures: () => text("failures"),
    damaged: async () => kubectl("exec", (await running()).metadata.name, "--", "sh", "-ec", VERIFY),
    acknowledgedWhenAsked: () => Number(text("asked")),
    acknowledgedAtItsEnd: () => Number(text("ended")),
  };
}

function objectsOf(
  { image }: ClusterUnderTest,
  name: string,
  claimName: string,
  records: string,
  { run, className, stopSeconds = 0 }: SteadyOptions,
): object[] {
  const claim = {
    metadata: { name: run === "StatefulSet" ? "data" : claimName },
    spec: { storageClassName: className, accessModes: ["ReadWriteOnce"], resources: { requests: { storage: "1Gi" } } },
  };
  const container = {
    name: "shell",
    image,
    imagePullPolicy: "IfNotPresent",
    command: ["sh", "-c", script(run, stopSeconds)],
    volumeMounts: [
      { name: "data", mountPath: "/data" },
      { name: "records", mountPath: "/records" },
    ],
  };
  const volumes = [
    { name: "records", hostPath: { path: records, type: "Directory" } },
    ...(run === "StatefulSet" ? [] : [{ name: "data", persistentVolumeClaim: { claimName } }]),
  ];
  const terminationGracePeriodSeconds = stopSeconds + GRACE_SECONDS;
  const podSpec = { terminationGracePeriodSeconds, containers: [container], volumes };
  const labels = { app: name };
  const selected = { selector: { matchLabels: labels }, template: { metadata: { labels }, spec: podSpec } };
  const ownClaim = { apiVersion: "v1", kind: "PersistentVolumeClaim", ...claim };
  switch (run) {
    case "StatefulSet": {
      const spec = { serviceName: name, ...selected, volumeClaimTemplates: [claim] };
      return [{ apiVersion: "apps/v1", kind: "StatefulSet", metadata: { name }, spec }];
    }
    case "Deployment": {
      const spec = { strategy: { type: "Recreate" }, ...selected };
      return [ownClaim, { apiVersion: "apps/v1", kind: "Deployment", metadata: { name }, spec }];
    }
    case "CronJob": {
      const template = { metadata: { labels }, spec: { ...podSpec, restartPolicy: "Never" } };
      const jobTemplate = { metadata: { labels }, spec: { backoffLimit: 0, template } };
      const spec = { schedule: "* * * * *", concurrencyPolicy: "Forbid", jobTemplate };
      return [ownClaim, { apiVersion: "batch/v1", kind: "CronJob", metadata: { name }, spec }];
    }
  }
}
