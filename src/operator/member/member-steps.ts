// Carries out the steps of a member's plan, each of them idempotent. A claim or an attachment that is there under the member's
// name already was made by an earlier attempt; one that is somebody else's is refused.
import type { FilesystemLayout, MemberSpec } from "../../api/filesystem-layout.ts";
import { MEMBER_NAMESPACE, SELECTED_NODE, SELECTED_NODE_ANNOTATION } from "../../api/names.ts";
import type { KubeClient } from "../../kube/client/client.ts";
import { isKubeError } from "../../kube/kube-error.ts";
import {
  PERSISTENT_VOLUME_CLAIMS,
  PERSISTENT_VOLUMES,
  type PersistentVolume,
  type PersistentVolumeClaim,
  VOLUME_ATTACHMENTS,
} from "../../kube/resources.ts";
import { type Marks, marksOf } from "./decide-marks.ts";
import { memberClaim } from "./member-claim.ts";
import { type Placing, UnsafeHomeError } from "./member-home.ts";
import { attachmentName, labelledHandle, memberLabels } from "./member-names.ts";
import { rulesOfRecords } from "./member-rules.ts";
import type { MemberStep } from "./plan-member.ts";

/** A claim of the member's name is not the member's. */
export class ForeignClaimError extends Error {
  override name = "ForeignClaimError";
}

/** Throws KubeError, ForeignClaimError, and UnsafeHomeError. */
export async function takeStep(
  placing: Placing,
  layout: FilesystemLayout,
  member: MemberSpec,
  step: MemberStep,
): Promise<void> {
  const { name } = member;
  const { client } = placing;
  switch (step.do) {
    case "create-claim":
      await createMemberClaim(placing, layout, member, step.selectedNode);
      return;
    case "select-node": {
      const selected = { metadata: { annotations: { [SELECTED_NODE]: step.nodeName } } };
      await client.mergePatch("member/select-node", PERSISTENT_VOLUME_CLAIMS, nameOf(step.claim), selected);
      return;
    }
    case "grow-claim": {
      const request = { spec: { resources: { requests: { storage: step.size } } } };
      await client.mergePatch("member/grow-claim", PERSISTENT_VOLUME_CLAIMS, nameOf(step.claim), request);
      return;
    }
    case "finish-growth": {
      const status = { capacity: { storage: step.size }, allocatedResources: null, allocatedResourceStatuses: null };
      await client.mergePatch(
        "member/finish-growth",
        PERSISTENT_VOLUME_CLAIMS,
        nameOf(step.claim),
        { status: { ...status, conditions: [] } },
        "status",
      );
      return;
    }
    case "keep-volume":
      await keepVolume(client, step.volume, step.patch);
      return;
    case "attach":
      await attachMember(client, layout, name, step);
      return;
  }
}

/**
 * The claim, whoever has made it; the members' namespace is made where it is missing. `selectedNode` undefined: the node that has the
 * volume, or was chosen for its first member.
 */
export async function createMemberClaim(
  placing: Placing,
  layout: FilesystemLayout,
  member: MemberSpec,
  selectedNode?: string,
): Promise<PersistentVolumeClaim> {
  const order = orderOf(layout);
  const marks = await readMarks(placing.client, layout);
  return placeClaim(
    placing,
    memberClaim({ ...order, marks, selectedNode: selectedNode ?? order.selectedNode }, member),
  );
}

/** Of the volume's own claim, for the member to have from its beginning. */
async function readMarks(client: KubeClient, { metadata, spec }: FilesystemLayout): Promise<Marks | undefined> {
  const carried = rulesOfRecords(metadata.annotations)?.carried;
  const { namespace, name, uid } = spec.claimRef ?? {};
  if (carried === undefined || !namespace || !name) return undefined;
  const claim = await client.get(PERSISTENT_VOLUME_CLAIMS, { namespace, name });
  return claim === undefined || claim.metadata.uid !== uid ? undefined : marksOf(carried, claim);
}

/** The claim, or one of its name that carries the same labels, which stays in whatever namespace it is. */
export async function placeClaim(
  { client, home }: Placing,
  claim: PersistentVolumeClaim,
): Promise<PersistentVolumeClaim> {
  const problem = await home.problem();
  if (problem === undefined) return createOrMeet(client, claim);
  const existing = await client.get(PERSISTENT_VOLUME_CLAIMS, nameOf(claim));
  if (existing !== undefined && labelledHandle(existing) === labelledHandle(claim)) return existing;
  throw new UnsafeHomeError(problem);
}

async function createOrMeet(client: KubeClient, claim: PersistentVolumeClaim): Promise<PersistentVolumeClaim> {
  try {
    return await client.create("member/create-claim", PERSISTENT_VOLUME_CLAIMS, claim);
  } catch (error) {
    const isThere = isKubeError(error, "AlreadyExists");
    const existing = isThere ? await client.get(PERSISTENT_VOLUME_CLAIMS, nameOf(claim)) : undefined;
    if (existing === undefined) throw error;
    if (labelledHandle(existing) === labelledHandle(claim)) return existing;
    throw new ForeignClaimError(
      `claim ${MEMBER_NAMESPACE}/${existing.metadata.name} exists and does not carry the labels of ${labelledHandle(claim)}; delete or rename it`,
    );
  }
}

function orderOf({ metadata, spec }: FilesystemLayout): Parameters<typeof memberClaim>[0] {
  const className = rulesOfRecords(metadata.annotations)?.className;
  if (className === undefined || spec.volumeUID === undefined)
    throw new Error(`${metadata.name} does not say which class its members are of`);
  const selectedNode = spec.nodeName ?? metadata.annotations?.[SELECTED_NODE_ANNOTATION];
  return { handle: metadata.name, volumeUID: spec.volumeUID, className, selectedNode };
}

export async function keepVolume(client: KubeClient, { metadata }: PersistentVolume, patch: object): Promise<void> {
  await client.mergePatch("member/keep-volume", PERSISTENT_VOLUMES, { name: metadata.name }, patch);
}

export interface Attaching {
  readonly driver: string;
  readonly volume: PersistentVolume;
  readonly nodeName: string;
}

export async function attachMember(
  client: KubeClient,
  { metadata, spec }: FilesystemLayout,
  member: string,
  { driver, volume, nodeName }: Attaching,
): Promise<void> {
  const name = attachmentName(metadata.name, member, nodeName);
  try {
    await client.create("member/attach", VOLUME_ATTACHMENTS, {
      apiVersion: "storage.k8s.io/v1",
      kind: "VolumeAttachment",
      metadata: { name, labels: memberLabels(spec.volumeUID ?? "", member) },
      spec: { attacher: driver, nodeName, source: { persistentVolumeName: volume.metadata.name } },
    });
  } catch (error) {
    if (!isKubeError(error, "AlreadyExists")) throw error;
  }
}

function nameOf({ metadata }: PersistentVolumeClaim): { namespace: string; name: string } {
  return { namespace: metadata.namespace ?? MEMBER_NAMESPACE, name: metadata.name };
}
