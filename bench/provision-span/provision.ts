// One claim and its pod, from the claim's creation until the pod runs.
import { PERSISTENT_VOLUME_CLAIMS, type PersistentVolumeClaim } from "../../src/contracts/kubernetes/resources.ts";
import { claimingPod, claimOf } from "../../test/e2e/claiming-pod.ts";
import type { ClusterUnderTest } from "../../test/e2e/cluster-under-test.ts";
import { PODS, type Pod } from "../../test/e2e/pod.ts";
import type { Sightings } from "../cluster/sightings.ts";
import { MILESTONES, type Milestone, mark } from "./provisioning-marks.ts";

export interface Provisioned {
  readonly runningMs: number;
  /** Since the claim's creation. */
  readonly milestones: Readonly<Partial<Record<Milestone, number>>>;
  /** Resolves when nothing of it is left. */
  remove(): Promise<void>;
}

const LIMIT_MS = 180_000;

export async function provision(
  tested: ClusterUnderTest,
  sightings: Sightings,
  name: string,
  storageClassName: string,
): Promise<Provisioned> {
  const { client, namespace, image } = tested;
  const metadata = { namespace, name };
  const until = (seen: string): Promise<number> =>
    sightings.until(seen, LIMIT_MS, () => tested.kubectl("describe", "pods,pvc"));
  const startMs = performance.now();
  const order = claimOf(name, storageClassName, "1Gi") as PersistentVolumeClaim;
  const claim = await client.create("bench/claim", PERSISTENT_VOLUME_CLAIMS, { ...order, metadata });
  const user = claimingPod(name, image, name) as Pod;
  const pod = await client.create("bench/pod", PODS, { ...user, metadata });
  const runningAtMs = await until(mark(pod.metadata.uid, "running"));
  const volume = (await client.get(PERSISTENT_VOLUME_CLAIMS, metadata))?.spec.volumeName;
  const subjects = [claim.metadata.uid, pod.metadata.uid, volume];
  return {
    runningMs: runningAtMs - startMs,
    milestones: milestonesOf(sightings, subjects, startMs),
    remove: async () => {
      await client.delete("bench/pod", PODS, metadata);
      await until(mark(pod.metadata.uid, "gone"));
      await client.delete("bench/claim", PERSISTENT_VOLUME_CLAIMS, metadata);
      for (const subject of [claim.metadata.uid, volume]) await until(mark(subject, "gone"));
    },
  };
}

function milestonesOf(
  sightings: Sightings,
  subjects: readonly (string | undefined)[],
  startMs: number,
): Provisioned["milestones"] {
  const seen = MILESTONES.flatMap((milestone) => {
    const atMs = subjects.map((subject) => sightings.atMs(mark(subject, milestone))).find((ms) => ms !== undefined);
    return atMs === undefined ? [] : [[milestone, atMs - startMs]];
  });
  return Object.fromEntries(seen) as Provisioned["milestones"];
}
