// What can be seen in the API of a claim that gets its volume and of a pod that gets to run, each marked when it is seen first.
import { FILESYSTEM_LAYOUTS, type FilesystemLayout } from "../../src/contracts/kinds/filesystem-layout.ts";
import {
  PERSISTENT_VOLUME_CLAIMS,
  PERSISTENT_VOLUMES,
  type PersistentVolumeClaim,
  VOLUME_ATTACHMENTS,
  type VolumeAttachment,
} from "../../src/contracts/kubernetes/resources.ts";
import { MEMBER_NAMESPACE, RECORDS } from "../../src/contracts/names.ts";
import type { ClusterUnderTest } from "../../test/e2e/cluster-under-test.ts";
import { PODS, type Pod } from "../../test/e2e/pod.ts";
import { createSightings, type Sightings } from "../cluster/sightings.ts";

/** Those of a member are seen of spans alone. */
export const MILESTONES = [
  ...["node chosen", "member claimed", "member bound", "bound", "scheduled"],
  ...["attachment made", "member's attachment made", "attached", "member attached", "staging", "mounted"],
] as const;
export type Milestone = (typeof MILESTONES)[number];

/** `subject` is the UID of the claim or the pod, or the name of the claim's volume. */
export function mark(subject: string | undefined, milestone: Milestone | "running" | "gone"): string {
  return `${subject}: ${milestone}`;
}

/** The span's members are seen by its volume's UID, which is that of the user's claim. */
export async function followProvisioning({ client, namespace }: ClusterUnderTest): Promise<Sightings> {
  const sightings = createSightings(client);
  await Promise.all([
    sightings.follow({
      resource: PERSISTENT_VOLUME_CLAIMS,
      marksOf: claimMarks,
      goneOf: ({ metadata }) => [mark(metadata.uid, "gone")],
    }),
    sightings.follow({ resource: PERSISTENT_VOLUMES, goneOf: ({ metadata }) => [mark(metadata.name, "gone")] }),
    sightings.follow({ resource: VOLUME_ATTACHMENTS, marksOf: attachmentMarks }),
    sightings.follow({ resource: FILESYSTEM_LAYOUTS, marksOf: layoutMarks }),
    sightings.follow({
      resource: PODS,
      select: { namespace },
      marksOf: podMarks,
      goneOf: ({ metadata }) => [mark(metadata.uid, "gone")],
    }),
  ]);
  return sightings;
}

const SELECTED_NODE = "volume.kubernetes.io/selected-node";

function claimMarks({ metadata, status }: PersistentVolumeClaim): string[] {
  const { uid, namespace, labels, annotations } = metadata;
  const bound = status?.phase === "Bound";
  const volumeUID = labels?.[RECORDS.volumeUID];
  if (namespace === MEMBER_NAMESPACE)
    return [mark(volumeUID, "member claimed"), ...(bound ? [mark(volumeUID, "member bound")] : [])];
  const chosen = annotations?.[SELECTED_NODE] !== undefined;
  return [...(chosen ? [mark(uid, "node chosen")] : []), ...(bound ? [mark(uid, "bound")] : [])];
}

function attachmentMarks({ metadata, spec, status }: VolumeAttachment): string[] {
  const member = metadata.labels?.[RECORDS.volumeUID];
  const attached = status?.attached === true;
  if (member !== undefined)
    return [mark(member, "member's attachment made"), ...(attached ? [mark(member, "member attached")] : [])];
  const volume = spec.source.persistentVolumeName;
  return [mark(volume, "attachment made"), ...(attached ? [mark(volume, "attached")] : [])];
}

/** The agent says that it has the volume right before it touches the first member, which kubelet has asked for by then. */
function layoutMarks({ spec, status }: FilesystemLayout): string[] {
  const mounted = status?.members?.some(({ state }) => state === "Present") === true;
  return [
    ...(status?.mounted === true ? [mark(spec.volumeUID, "staging")] : []),
    ...(mounted ? [mark(spec.volumeUID, "mounted")] : []),
  ];
}

function podMarks({ metadata, spec, status }: Pod): string[] {
  return [
    ...(spec.nodeName === undefined ? [] : [mark(metadata.uid, "scheduled")]),
    ...(status?.phase === "Running" ? [mark(metadata.uid, "running")] : []),
  ];
}
