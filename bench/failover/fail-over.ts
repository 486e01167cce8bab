// One failover: the power of the pod's node is cut, and what is seen of it in the API until the pod runs elsewhere is timed.

import {
  NODES,
  type Node,
  PERSISTENT_VOLUME_CLAIMS,
  VOLUME_ATTACHMENTS,
  type VolumeAttachment,
} from "../../src/contracts/kubernetes/resources.ts";
import { RECORDS } from "../../src/contracts/names.ts";
import type { Cluster } from "../../test/cluster/cluster-state.ts";
import type { ClusterUnderTest } from "../../test/e2e/cluster-under-test.ts";
import { PODS, type Pod } from "../../test/e2e/pod.ts";
import { WRITER_CLAIM, WRITER_POD } from "../../test/e2e/stateful-writer.ts";
import { createSightings, type Sightings } from "../cluster/sightings.ts";
import { cutPower, leadershipsOn, spreadControllers } from "./lost-node.ts";

const LIMIT_MS = 300_000;

export interface Failover {
  readonly from: string;
  readonly to: string;
  readonly ms: number;
  /** The leases that the lost node held. */
  readonly lost: readonly string[];
  /** Until Kubernetes has let go of the pod and the next one is scheduled: nobody may touch its volume before. */
  readonly letGoMs: number;
  /** From there until nothing of the volume is attached to the lost node. */
  readonly detachMs: number;
  readonly attachMs: number;
  /** From there until the pod runs. */
  readonly stageMs: number;
  /** Since the cut. */
  readonly marks: Readonly<Record<string, number>>;
}

export async function failOver(tested: ClusterUnderTest, cluster: Cluster): Promise<Failover> {
  const old = await theWriter(tested);
  const from = old.spec.nodeName ?? "";
  await spreadControllers(tested, from);
  const lost = await leadershipsOn(tested, from);
  const attachedBefore = await attachmentsOf(tested);
  const sightings = await follow(tested, old);
  try {
    const startMs = performance.now();
    await cutPower(tested, cluster, from);
    const cutMs = performance.now() - startMs;
    const otherwise = (): Promise<string> => tested.kubectl("describe", "pods,pvc,volumeattachments,filesystemlayouts");
    const runningMs = await sightings.until("next pod runs", LIMIT_MS, otherwise);
    const { spec } = await theWriter(tested);
    const attachedNow = await attachmentsOf(tested);
    const seenMs = (...wanted: readonly string[]): number =>
      Math.max(...wanted.map((one) => sightings.atMs(one) ?? Number.NaN)) - startMs;
    const marks = {
      "power cut and tainted": cutMs,
      "node not ready": seenMs(`${from} not ready`),
      "pod to be deleted": seenMs("pod deleted"),
      "pod gone": seenMs("pod gone"),
      scheduled: seenMs("next pod scheduled"),
      detached: seenMs(...attachedBefore.map(({ metadata }) => `${metadata.uid} gone`)),
      attached: seenMs(...attachedNow.map(({ metadata }) => `${metadata.uid} attached`)),
    };
    const ms = runningMs - startMs;
    return {
      ...{ from, to: spec.nodeName ?? "", ms, lost, marks },
      letGoMs: marks.scheduled,
      detachMs: marks.detached - marks.scheduled,
      attachMs: marks.attached - marks.detached,
      stageMs: ms - marks.attached,
    };
  } finally {
    await sightings.stop();
  }
}

async function theWriter({ client, namespace }: ClusterUnderTest): Promise<Pod> {
  const pod = await client.get(PODS, { namespace, name: WRITER_POD });
  if (pod === undefined) throw new Error(`there is no pod ${namespace}/${WRITER_POD}`);
  return pod;
}

/** The span's own and its members'. */
async function attachmentsOf({ client, namespace }: ClusterUnderTest): Promise<VolumeAttachment[]> {
  const claim = await client.get(PERSISTENT_VOLUME_CLAIMS, { namespace, name: WRITER_CLAIM });
  const { items } = await client.list(VOLUME_ATTACHMENTS);
  return items.filter(
    ({ metadata, spec }) =>
      metadata.labels?.[RECORDS.volumeUID] === claim?.metadata.uid ||
      spec.source.persistentVolumeName === claim?.spec.volumeName,
  );
}

async function follow({ client, namespace }: ClusterUnderTest, old: Pod): Promise<Sightings> {
  const sightings = createSightings(client);
  const isOld = ({ metadata }: Pod): boolean => metadata.uid === old.metadata.uid;
  await Promise.all([
    sightings.follow({ resource: NODES, marksOf: nodeMarks }),
    sightings.follow({
      resource: PODS,
      select: { namespace },
      marksOf: (pod) => (isOld(pod) ? oldPodMarks(pod) : nextPodMarks(pod)),
      goneOf: (pod) => (isOld(pod) ? ["pod gone"] : []),
    }),
    sightings.follow({
      resource: VOLUME_ATTACHMENTS,
      marksOf: ({ metadata, status }) => (status?.attached === true ? [`${metadata.uid} attached`] : []),
      goneOf: ({ metadata }) => [`${metadata.uid} gone`],
    }),
  ]);
  return sightings;
}

function nodeMarks({ metadata, status }: Node): string[] {
  const ready = status?.conditions?.some((condition) => condition.type === "Ready" && condition.status === "True");
  return ready === true ? [] : [`${metadata.name} not ready`];
}

function oldPodMarks({ metadata }: Pod): string[] {
  return metadata.deletionTimestamp === undefined ? [] : ["pod deleted"];
}

function nextPodMarks({ spec, status }: Pod): string[] {
  return [
    ...(spec.nodeName === undefined ? [] : ["next pod scheduled"]),
    ...(status?.phase === "Running" ? ["next pod runs"] : []),
  ];
}
