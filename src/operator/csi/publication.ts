// ControllerPublishVolume and ControllerUnpublishVolume of a span. The first gives the volume to a node, and asks for each member to be
// attached there; the members' own attachers do the work, and the node's agent waits for them. The second takes it back, and is done when
// no member is attached there. It is refused while the node's agent has it mounted: to unplug devices under a mounted filesystem loses
// data.
import { accessOf } from "../../contracts/csi/access.ts";
import { invalidArgument, Refusal } from "../../contracts/csi/refusal.ts";
import type {
  ControllerPublishVolumeRequest,
  ControllerPublishVolumeResponse,
  ControllerUnpublishVolumeRequest,
  ControllerUnpublishVolumeResponse,
} from "../../contracts/gen/csi/v1/csi.ts";
import { handleOf, noVolume, volumeUIDOf } from "../../contracts/identity.ts";
import { FILESYSTEM_LAYOUTS, type FilesystemLayout } from "../../contracts/kinds/filesystem-layout.ts";
import {
  CSI_DRIVERS,
  NODES,
  PERSISTENT_VOLUME_CLAIMS,
  PERSISTENT_VOLUMES,
  type PersistentVolume,
  STORAGE_CLASSES,
  VOLUME_ATTACHMENTS,
  type VolumeAttachment,
} from "../../contracts/kubernetes/resources.ts";
import { MEMBER_NAMESPACE, RECORDS } from "../../contracts/names.ts";
import type { KubeClient } from "../../platform/kube/client/client.ts";
import { attachMember } from "../apply/member-steps.ts";
import { attachmentsOf, describeAttachment, detach } from "../apply/remove-members.ts";
import { type LayoutWriter, readLayout } from "../apply/volume-objects.ts";
import { withoutAttachment } from "../decide/decide-member.ts";
import { isRemoving, mountNodeOf } from "../decide/layout-facts.ts";
import { neededMembers } from "../decide/members/decide-member-state.ts";
import type { VolumeChanges } from "../gather/cache-waits.ts";
import { lackOfSlots } from "../gather/member-room.ts";
import { isIncomplete, isOurVolume, recordOfPersistentVolume } from "../volumes/volume-record.ts";
import { OBJECT_NAME } from "./requests/volume-parameters.ts";
import {
  type Binding,
  describeMount,
  isLost,
  isMountedSince,
  presentMountNode,
  requireOwnClaim,
} from "./volume-checks.ts";

export interface Publishing extends Binding {
  readonly layouts: LayoutWriter;
}

/** Throws Refusal and KubeError. */
export async function publishVolume(
  publishing: Publishing,
  request: ControllerPublishVolumeRequest,
): Promise<ControllerPublishVolumeResponse> {
  const { client, layouts } = publishing;
  const layout = await requestedLayout(client, request);
  const { nodeId: nodeName } = request;
  await requireOwnClaim(publishing, layout);
  await refuseMounted(client, layout, nodeName);
  await refuseAttached(client, layout, nodeName);
  const members = await membersToAttach(client, layout);
  const full = await lackOfSlots(client, nodeName, members, layout);
  if (full !== undefined) throw new Refusal("RESOURCE_EXHAUSTED", full);
  const given = await give(layouts, layout, nodeName);
  for (const { name, volume, driver } of members) await attachMember(client, given, name, { driver, volume, nodeName });
  return { publishContext: {} };
}

async function requestedLayout(
  client: KubeClient,
  { volumeId, nodeId, volumeCapability, readonly }: ControllerPublishVolumeRequest,
): Promise<FilesystemLayout> {
  if (volumeId !== "" && nodeId === "") throw invalidArgument("the node id is missing");
  if (volumeId !== "") accessOf(volumeCapability);
  if (readonly) throw invalidArgument("volumes are not published read-only; a pod may still mount one read-only");
  const handle = handleOf(volumeId);
  const layout = await client.get(FILESYSTEM_LAYOUTS, { name: handle });
  if (layout?.spec.backend !== "span") throw noVolume(handle, "it has no FilesystemLayout of the backend span");
  if (isRemoving(layout)) throw new Refusal("FAILED_PRECONDITION", `${handle} is being deleted`);
  // It becomes part of a path on the API server, where ".." leads elsewhere.
  const node = OBJECT_NAME.test(nodeId) ? await client.get(NODES, { name: nodeId }) : undefined;
  if (node === undefined) throw new Refusal("NOT_FOUND", `there is no node "${nodeId}"`);
  return layout;
}

/** One node at a time: the one that has it gives it back first, unless that node is lost. */
async function refuseMounted(client: KubeClient, layout: FilesystemLayout, nodeName: string): Promise<void> {
  const holder = await presentMountNode(client, layout);
  const owner = layout.spec.nodeName;
  if (holder !== undefined && holder !== nodeName)
    throw elsewhere(layout, `${describeMount(layout, holder)}; it is given to ${nodeName} once that has unmounted it`);
  if (owner === undefined || owner === nodeName || (await isLost(client, owner))) return;
  throw elsewhere(layout, `published to node ${owner}, and not given back yet`);
}

/** A member that is still attached elsewhere would be attached twice. */
async function refuseAttached(client: KubeClient, layout: FilesystemLayout, nodeName: string): Promise<void> {
  const attached = await attachmentsOf(client, layout.spec.volumeUID ?? "");
  for (const { metadata, spec } of attached) {
    if (spec.nodeName === nodeName || (await isLost(client, spec.nodeName))) continue;
    throw elsewhere(layout, `still attached to node ${spec.nodeName} by VolumeAttachment ${metadata.name}`);
  }
}

function elsewhere({ metadata }: FilesystemLayout, where: string): Refusal {
  return new Refusal("FAILED_PRECONDITION", `${metadata.name} is ${where}`);
}

interface MemberToAttach {
  readonly name: string;
  readonly volume: PersistentVolume;
  readonly driver: string;
}

/** Members that are not bound yet, or whose driver attaches nothing, are the reconciler's, and so is a spare. */
async function membersToAttach(client: KubeClient, layout: FilesystemLayout): Promise<MemberToAttach[]> {
  const found: MemberToAttach[] = [];
  for (const { name, source } of neededMembers(layout)) {
    const { volumeName, driver } = source.claim ?? {};
    if (volumeName === undefined || driver === undefined) continue;
    const csiDriver = await client.get(CSI_DRIVERS, { name: driver });
    const volume = await client.get(PERSISTENT_VOLUMES, { name: volumeName });
    if (volume !== undefined && csiDriver?.spec.attachRequired !== false) found.push({ name, volume, driver });
  }
  return found;
}

async function give(layouts: LayoutWriter, layout: FilesystemLayout, nodeName: string): Promise<FilesystemLayout> {
  const before = layout.spec.nodeName;
  let taken: string | undefined;
  const given = await layouts.update("publish-volume/give-node", layout, (current) => {
    const { spec } = current;
    taken =
      spec.nodeName !== before && spec.nodeName !== nodeName
        ? spec.nodeName === undefined
          ? "taken from its node"
          : `given to node ${spec.nodeName}`
        : undefined;
    // A node that was lost at the check may have come back, and said that it has the volume.
    if (isMountedSince(layout, current) && mountNodeOf(current) !== nodeName) taken = "mounted or recreated";
    if (isRemoving(current)) taken = "asked to be deleted";
    if (taken !== undefined || spec.nodeName === nodeName) return undefined;
    const members = (spec.members ?? []).map((member) =>
      member.source.claim === undefined
        ? member
        : { ...member, source: { claim: withoutAttachment(member.source.claim) } },
    );
    return { nodeName, members };
  });
  if (given === undefined) throw noVolume(layout.metadata.name, "it was deleted concurrently");
  if (taken !== undefined) throw new Refusal("ABORTED", `${layout.metadata.name} was ${taken} concurrently; retry`);
  return given;
}

export interface Unpublishing {
  readonly client: KubeClient;
  readonly layouts: LayoutWriter;
  readonly changes: VolumeChanges;
  /** How long one call waits for the node's word that it has unmounted the volume. */
  readonly releaseWaitLimitMs: number;
  /** How long it waits for the members' attachers then. */
  readonly detachWaitLimitMs: number;
}

/** Both together are under csi-attacher's timeout of 30 s (kustomize/base). */
export const DETACH_WAIT_LIMIT_MS = 20_000;
export const RELEASE_WAIT_LIMIT_MS = 5000;

/** Throws Refusal and KubeError. */
export async function unpublishVolume(
  unpublishing: Unpublishing,
  { volumeId, nodeId }: ControllerUnpublishVolumeRequest,
): Promise<ControllerUnpublishVolumeResponse> {
  if (volumeId === "") throw invalidArgument("the volume id is missing");
  const volumeUID = volumeUIDOf(volumeId);
  // An id that is not a handle of ours names nothing that was ever published.
  if (volumeUID === undefined) return {};
  const { client, layouts, changes } = unpublishing;
  const isAsked = (nodeName: string | undefined): boolean => nodeId === "" || nodeName === nodeId;
  let layout: FilesystemLayout | undefined;
  let isMissing = false;
  // Kubelet has unmounted it by now; its agent's word of that may be a moment behind.
  const lookAtHolder = async (): Promise<string | undefined> => {
    layout = await readLayout(client, volumeId);
    isMissing = layout === undefined && (await isMadeAgain(client, volumeId, nodeId));
    if (isMissing) return "its FilesystemLayout is being rebuilt; nothing is detached before its node has reported";
    const holder = layout && (await presentMountNode(client, layout));
    return layout && holder !== undefined && isAsked(holder) ? describeMount(layout, holder) : undefined;
  };
  const held = await changes.until(volumeId, lookAtHolder, unpublishing.releaseWaitLimitMs);
  if (isMissing) throw new Refusal("ABORTED", `${volumeId}: ${held}; ask again`);
  if (held !== undefined)
    throw new Refusal("FAILED_PRECONDITION", `${volumeId} is ${held}, and has not been released there`);
  // The node goes first: what is attached from now on is an orphan, and is not attached again.
  if (layout !== undefined && !(await takeBack(layouts, layout, isAsked)))
    throw new Refusal("ABORTED", `${volumeId} was mounted on its node concurrently; retry`);
  let isGivenAgain = false;
  const look = async (): Promise<string | undefined> => {
    // Before the layout is read: an attachment that is made after that is the next publication's.
    const listed = new Set((await attachmentsOf(client, volumeUID)).map(({ metadata }) => metadata.uid));
    const nodeName = (await client.get(FILESYSTEM_LAYOUTS, { name: volumeId }))?.spec.nodeName;
    isGivenAgain = nodeName !== undefined && isAsked(nodeName);
    if (isGivenAgain) return undefined;
    const isOver = ({ metadata, spec }: VolumeAttachment): boolean =>
      listed.has(metadata.uid) && isAsked(spec.nodeName);
    const left = await detach(client, volumeUID, isOver);
    return left.length === 0 ? undefined : left.map(describeAttachment).join(", ");
  };
  const left = await changes.until(volumeId, look, unpublishing.detachWaitLimitMs);
  if (isGivenAgain) throw new Refusal("ABORTED", `${volumeId} was published there again concurrently; retry`);
  if (left !== undefined) throw new Refusal("ABORTED", `${volumeId}: ${left}; it goes on, ask again`);
  return {};
}

/**
 * Without its layout only its node knows whether the volume is mounted there. The reconciler recreates the layout from
 * the PersistentVolume and the traces of its members. Where those are gone too there is nothing to wait for, and a node
 * that is lost holds nothing.
 */
async function isMadeAgain(client: KubeClient, handle: string, nodeId: string): Promise<boolean> {
  const volumes = (await client.list(PERSISTENT_VOLUMES)).items.filter(
    (volume) => isOurVolume(volume) && volume.spec.csi?.volumeHandle === handle,
  );
  const [volume] = volumes;
  if (volume === undefined) return false;
  if (nodeId !== "" && (await isLost(client, nodeId))) return false;
  // Of one that has a claim, or of which there are two, what is missing may be on its way back from a backup.
  const isOver = volumes.length === 1 && volume.status?.phase === "Released";
  return !isOver || (await hasMemberTraces(client, volume));
}

/** `layout` shows the volume held by no node, or by a lost one. False: its node has mounted it since. */
async function takeBack(
  layouts: LayoutWriter,
  layout: FilesystemLayout,
  isAsked: (nodeName: string | undefined) => boolean,
): Promise<boolean> {
  let isHeld = false;
  await layouts.update("unpublish-volume/take-back", layout, (current) => {
    const { spec } = current;
    isHeld =
      isMountedSince(layout, current) &&
      (current.metadata.uid !== layout.metadata.uid || isAsked(mountNodeOf(current)));
    if (isHeld || spec.nodeName === undefined || !isAsked(spec.nodeName)) return undefined;
    const members = (spec.members ?? []).map((member) =>
      member.source.claim === undefined
        ? member
        : { ...member, source: { claim: withoutAttachment(member.source.claim) } },
    );
    return { nodeName: undefined, members };
  });
  return !isHeld;
}

/**
 * Whether anything in the cluster still shows a span's members: a claim, a volume, an attachment. Where nothing does, and members of its
 * class are on a node by an attachment only, no member is on any node. Where that is unknown the answer is yes. `volume`: the user's.
 */
async function hasMemberTraces(client: KubeClient, volume: PersistentVolume): Promise<boolean> {
  const record = recordOfPersistentVolume(volume);
  if (isIncomplete(record) || record.backend !== "span") return true;
  const labelSelector = `${RECORDS.volumeUID}=${record.volumeUID}`;
  const [claims, volumes, attachments] = await Promise.all([
    client.list(PERSISTENT_VOLUME_CLAIMS, { namespace: MEMBER_NAMESPACE, labelSelector }),
    client.list(PERSISTENT_VOLUMES, { labelSelector }),
    client.list(VOLUME_ATTACHMENTS, { labelSelector }),
  ]);
  if ([claims, volumes, attachments].some(({ items }) => items.length > 0)) return true;
  return !(await isAttachedToBeUsed(client, record.memberRules?.className));
}

/** A class or a driver that is gone cannot be asked. */
async function isAttachedToBeUsed(client: KubeClient, className: string | undefined): Promise<boolean> {
  const storageClass = className === undefined ? undefined : await client.get(STORAGE_CLASSES, { name: className });
  const driver = storageClass && (await client.get(CSI_DRIVERS, { name: storageClass.provisioner }));
  return driver !== undefined && driver.spec.attachRequired !== false;
}
