// The layout of a span, made again from what its members' claims say. Pure. Whether the set is whole only the filesystem knows: its
// node compares the devices with the superblock, and mounts nothing that lacks one.
import type { MemberSpec } from "../../api/filesystem-layout.ts";
import {
  MEMBER_LABEL,
  MEMBER_NAMESPACE,
  NEXT_MEMBER_ANNOTATION,
  REFUSED_ANNOTATION,
  SELECTED_NODE,
  SELECTED_NODE_ANNOTATION,
} from "../../api/names.ts";
import type { ApplyConfiguration } from "../../kube/client/client.ts";
import type { PersistentVolume } from "../../kube/resources.ts";
import { newLayout } from "../volume/layout-fields.ts";
import type { IncompleteRecord, VolumeRecord } from "../volume/volume-record.ts";
import type { FoundMember, FoundMembers } from "./find-members.ts";
import { memberIndex } from "./member-names.ts";

export function rebuiltSpan(
  record: VolumeRecord,
  found: FoundMembers | undefined,
): ApplyConfiguration | IncompleteRecord {
  const all = [...(found?.members ?? [])].sort((a, b) => indexOf(a) - indexOf(b));
  const deleted = all.filter(isDeletedByOthers).map(({ claim }) => claim.metadata.name);
  if (deleted.length > 0)
    return { missing: [`claim ${deleted.join(", ")} (its deletion goes on; then it is made again)`] };
  const staying = all.filter((member) => !isLeaving(member));
  const nodeNames = found?.nodeNames ?? [];
  if (staying.length === 0) return { missing: [`member claims in ${MEMBER_NAMESPACE}`] };
  if (nodeNames.length > 1) return { missing: [`one node that it is attached to (there are ${nodeNames.join(", ")})`] };
  const selectedNode = staying[0]?.claim.metadata.annotations?.[SELECTED_NODE];
  return newLayout({ ...record, nodeName: nodeNames[0] }, staying.map(memberOf), {
    [NEXT_MEMBER_ANNOTATION]: String(found?.nextMember ?? 0),
    ...(selectedNode === undefined ? {} : { [SELECTED_NODE_ANNOTATION]: selectedNode }),
  });
}

/** Without a size: as found on the node, and a filesystem that was there before. One that was refused was never in it, and is not waited for. */
function memberOf({ claim, volume }: FoundMember): MemberSpec {
  const { name, uid, labels } = claim.metadata;
  const refused = volume?.metadata.annotations?.[REFUSED_ANNOTATION];
  return {
    name: labels?.[MEMBER_LABEL] ?? "",
    ...(refused === undefined ? { state: "Present" } : { state: "Spare", refused }),
    source: { claim: { name, ...(uid === undefined ? {} : { uid }) } },
  };
}

/** Its volume is kept, as it is of no member that we let go of. What is made without it would lack it for good. */
function isDeletedByOthers({ claim, volume }: FoundMember): boolean {
  return claim.metadata.deletionTimestamp !== undefined && isMarked(volume, "Retain");
}

/** In the last step of its teardown: kept once, and let go then. */
function isLeaving({ claim, volume }: FoundMember): boolean {
  return claim.metadata.deletionTimestamp !== undefined || isMarked(volume, "Delete");
}

function isMarked(volume: PersistentVolume | undefined, policy: "Retain" | "Delete"): boolean {
  return volume?.metadata.labels?.[MEMBER_LABEL] !== undefined && volume.spec.persistentVolumeReclaimPolicy === policy;
}

function indexOf({ claim }: FoundMember): number {
  return memberIndex(claim.metadata.labels?.[MEMBER_LABEL] ?? "") ?? 0;
}
