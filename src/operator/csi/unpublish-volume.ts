// ControllerUnpublishVolume of a span: takes the volume back from a node, and is done when none of its members is attached there.
// Refused while the node's agent has it mounted: what is unplugged under a mounted filesystem is lost.
import { FILESYSTEM_LAYOUTS, type FilesystemLayout } from "../../api/filesystem-layout.ts";
import { volumeUIDOf } from "../../api/identity.ts";
import { invalidArgument, Refusal } from "../../csi/refusal.ts";
import type { ControllerUnpublishVolumeRequest, ControllerUnpublishVolumeResponse } from "../../gen/csi/v1/csi.ts";
import type { KubeClient } from "../../kube/client/client.ts";
import { PERSISTENT_VOLUMES, type VolumeAttachment } from "../../kube/resources.ts";
import { withoutAttachment } from "../member/claim-source.ts";
import { hasMemberTraces } from "../member/member-traces.ts";
import { attachmentsOf, describeAttachment, detach } from "../member/tear-down-member.ts";
import { saidHolder } from "../volume/layout-facts.ts";
import type { LayoutWriter } from "../volume/layout-writer.ts";
import { readLayout } from "../volume/new-layout.ts";
import type { VolumeChanges } from "../volume/volume-changes.ts";
import { isOurVolume } from "../volume/volume-record.ts";
import { describeHolder, holdingNode, isHeldSince, isLost } from "./holding-node.ts";

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

export async function unpublishVolume(
  unpublishing: Unpublishing,
  { volumeId, nodeId }: ControllerUnpublishVolumeRequest,
): Promise<ControllerUnpublishVolumeResponse | Refusal> {
  if (volumeId === "") return invalidArgument("the volume id is missing");
  const volumeUID = volumeUIDOf(volumeId);
  // An id that is no handle of ours names nothing that was ever published.
  if (volumeUID === undefined) return {};
  const { client, layouts, changes } = unpublishing;
  const isAsked = (nodeName: string | undefined): boolean => nodeId === "" || nodeName === nodeId;
  let layout: FilesystemLayout | undefined;
  let isMissing = false;
  // Kubelet has unmounted it by now; its agent's word of that may be a moment behind.
  const lookAtHolder = async (): Promise<string | undefined> => {
    layout = await readLayout(client, volumeId);
    isMissing = layout === undefined && (await isMadeAgain(client, volumeId, nodeId));
    if (isMissing)
      return "its FilesystemLayout is gone; that is being made again, and nothing is detached before its node has said more";
    const holder = layout && (await holdingNode(client, layout));
    return layout && holder !== undefined && isAsked(holder) ? describeHolder(layout, holder) : undefined;
  };
  const held = await changes.until(volumeId, lookAtHolder, unpublishing.releaseWaitLimitMs);
  if (isMissing) return new Refusal("ABORTED", `${volumeId}: ${held}; ask again`);
  if (held !== undefined)
    return new Refusal("FAILED_PRECONDITION", `${volumeId} is ${held}, and has not been released there`);
  // The node goes first: what is attached from now on is a stray, and nobody attaches it again.
  if (layout !== undefined && !(await takeBack(layouts, layout, isAsked)))
    return new Refusal("ABORTED", `${volumeId} was mounted on its node meanwhile; ask again`);
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
  if (isGivenAgain) return new Refusal("ABORTED", `${volumeId} was published there again meanwhile; ask again`);
  return left === undefined ? {} : new Refusal("ABORTED", `${volumeId}: ${left}; it goes on, ask again`);
}

/**
 * Without its layout only its node knows whether the volume is mounted there. The reconciler makes the layout again from the
 * PersistentVolume and what tells of its members; where that is gone too there is nothing to wait for, and a node that is lost holds
 * nothing.
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

/** `layout` was held by nobody, or by a node that is lost. False: its node has mounted it since. */
async function takeBack(
  layouts: LayoutWriter,
  layout: FilesystemLayout,
  isAsked: (nodeName: string | undefined) => boolean,
): Promise<boolean> {
  let isHeld = false;
  await layouts.update("unpublish-volume/take-back", layout, (current) => {
    const { spec } = current;
    isHeld =
      isHeldSince(layout, current) && (current.metadata.uid !== layout.metadata.uid || isAsked(saidHolder(current)));
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
