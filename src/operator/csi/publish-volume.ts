// ControllerPublishVolume of a span: gives the volume to a node, and asks for each member to be attached there. It returns once
// that is asked for; the members' own attachers do the work, and the node's agent waits for them.
import { FILESYSTEM_LAYOUTS, type FilesystemLayout } from "../../api/filesystem-layout.ts";
import { accessOf } from "../../csi/access.ts";
import { invalidArgument, Refusal } from "../../csi/refusal.ts";
import { handleOf, noVolume } from "../../csi/volume-id.ts";
import type { ControllerPublishVolumeRequest, ControllerPublishVolumeResponse } from "../../gen/csi/v1/csi.ts";
import type { KubeClient } from "../../kube/client/client.ts";
import { CSI_DRIVERS, NODES, PERSISTENT_VOLUMES, type PersistentVolume } from "../../kube/resources.ts";
import { lackOfSlots } from "../member/attach-slots.ts";
import { withoutAttachment } from "../member/claim-source.ts";
import { attachMember } from "../member/member-steps.ts";
import { neededMembers } from "../member/needed-members.ts";
import { attachmentsOf } from "../member/tear-down-member.ts";
import { isRemoving, saidHolder } from "../volume/layout-facts.ts";
import type { LayoutWriter } from "../volume/layout-writer.ts";
import { describeHolder, holdingNode, isHeldSince, isLost } from "./holding-node.ts";
import { OBJECT_NAME } from "./member-parameters.ts";
import { type Binding, refusalOfForeignClaim } from "./volume-binding.ts";

export interface Publishing extends Binding {
  readonly layouts: LayoutWriter;
}

export async function publishVolume(
  publishing: Publishing,
  request: ControllerPublishVolumeRequest,
): Promise<ControllerPublishVolumeResponse | Refusal> {
  const { client, layouts } = publishing;
  const layout = await requestedLayout(client, request);
  if (layout instanceof Refusal) return layout;
  const { nodeId: nodeName } = request;
  const refusal =
    (await refusalOfForeignClaim(publishing, layout)) ??
    (await refusalOfHolder(client, layout, nodeName)) ??
    (await refusalOfAttached(client, layout, nodeName));
  if (refusal !== undefined) return refusal;
  const members = await membersToAttach(client, layout);
  const full = await lackOfSlots(client, nodeName, members, layout);
  if (full !== undefined) return new Refusal("RESOURCE_EXHAUSTED", full);
  const given = await give(layouts, layout, nodeName);
  if (given instanceof Refusal) return given;
  for (const { name, volume, driver } of members) await attachMember(client, given, name, { driver, volume, nodeName });
  return { publishContext: {} };
}

async function requestedLayout(
  client: KubeClient,
  { volumeId, nodeId, volumeCapability, readonly }: ControllerPublishVolumeRequest,
): Promise<FilesystemLayout | Refusal> {
  if (volumeId !== "" && nodeId === "") return invalidArgument("the node id is missing");
  const access = volumeId === "" ? undefined : accessOf(volumeCapability);
  if (access instanceof Refusal) return access;
  if (readonly) return invalidArgument("volumes are not published read-only; a pod may still mount one read-only");
  const handle = handleOf(volumeId);
  if (handle instanceof Refusal) return handle;
  const layout = await client.get(FILESYSTEM_LAYOUTS, { name: handle });
  if (layout?.spec.backend !== "span") return noVolume(handle, "it has no FilesystemLayout of the backend span");
  if (isRemoving(layout)) return new Refusal("FAILED_PRECONDITION", `${handle} is being deleted`);
  // It becomes part of a path on the API server, where ".." leads elsewhere.
  const node = OBJECT_NAME.test(nodeId) ? await client.get(NODES, { name: nodeId }) : undefined;
  return node === undefined ? new Refusal("NOT_FOUND", `there is no node "${nodeId}"`) : layout;
}

/** One node at a time: the one that has it gives it back first, unless that node is lost. */
async function refusalOfHolder(
  client: KubeClient,
  layout: FilesystemLayout,
  nodeName: string,
): Promise<Refusal | undefined> {
  const holder = await holdingNode(client, layout);
  const owner = layout.spec.nodeName;
  if (holder !== undefined && holder !== nodeName)
    return elsewhere(
      layout,
      `${describeHolder(layout, holder)}; it is given to ${nodeName} once that has unmounted it`,
    );
  if (owner === undefined || owner === nodeName || (await isLost(client, owner))) return undefined;
  return elsewhere(layout, `published to node ${owner}, and not given back yet`);
}

/** A member that is still attached elsewhere would be attached twice. */
async function refusalOfAttached(
  client: KubeClient,
  layout: FilesystemLayout,
  nodeName: string,
): Promise<Refusal | undefined> {
  const attached = await attachmentsOf(client, layout.spec.volumeUID ?? "");
  for (const { metadata, spec } of attached) {
    if (spec.nodeName === nodeName || (await isLost(client, spec.nodeName))) continue;
    return elsewhere(layout, `still attached to node ${spec.nodeName} by VolumeAttachment ${metadata.name}`);
  }
  return undefined;
}

function elsewhere({ metadata }: FilesystemLayout, where: string): Refusal {
  return new Refusal("FAILED_PRECONDITION", `${metadata.name} is ${where}`);
}

export interface MemberToAttach {
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

async function give(
  layouts: LayoutWriter,
  layout: FilesystemLayout,
  nodeName: string,
): Promise<FilesystemLayout | Refusal> {
  const before = layout.spec.nodeName;
  let taken: string | undefined;
  const given = await layouts.update("publish-volume/give-node", layout, (current) => {
    const { spec } = current;
    taken =
      spec.nodeName !== before && spec.nodeName !== nodeName ? `given to ${spec.nodeName ?? "nobody"}` : undefined;
    // A node that was lost when it was looked at may have come back, and said that it has the volume.
    if (isHeldSince(layout, current) && saidHolder(current) !== nodeName) taken = "mounted, or made again,";
    if (isRemoving(current)) taken = "asked to be deleted";
    if (taken !== undefined || spec.nodeName === nodeName) return undefined;
    const members = (spec.members ?? []).map((member) =>
      member.source.claim === undefined
        ? member
        : { ...member, source: { claim: withoutAttachment(member.source.claim) } },
    );
    return { nodeName, members };
  });
  if (given === undefined) return noVolume(layout.metadata.name, "it was deleted meanwhile");
  return taken === undefined
    ? given
    : new Refusal("ABORTED", `${layout.metadata.name} was ${taken} meanwhile; ask again`);
}
