// Everything that is known of one member beside the layout, as the caches have it.
import type { FilesystemLayout, MemberSpec } from "../../api/filesystem-layout.ts";
import { MEMBER_LABEL } from "../../api/names.ts";
import { objectKey } from "../../kube/object.ts";
import type { PersistentVolume, PersistentVolumeClaim, VolumeAttachment } from "../../kube/resources.ts";
import type { VolumeCaches } from "../volume/volume-caches.ts";
import { memberClaimName } from "./member-names.ts";

export interface MemberFacts {
  readonly member: MemberSpec;
  readonly claim: PersistentVolumeClaim | undefined;
  /** The one that the claim names. */
  readonly volume: PersistentVolume | undefined;
  /** Of this member, to any node. */
  readonly attachments: readonly VolumeAttachment[];
  /** Whether the volume's driver has to attach it; as Kubernetes, true where there is no CSIDriver. */
  readonly attachRequired: boolean;
}

export type MemberCaches = Pick<VolumeCaches, "memberClaims" | "persistentVolumes" | "attachments" | "csiDrivers">;

export function gatherMembers(caches: MemberCaches, layout: FilesystemLayout): MemberFacts[] {
  const handle = layout.metadata.name;
  const attachments = caches.attachments.store.byIndex("volume", handle);
  return (layout.spec.members ?? []).map((member) => {
    const claim = caches.memberClaims.store.get(objectKey(memberClaimName(handle, member.name)));
    const volume = caches.persistentVolumes.store.get(claim?.spec.volumeName ?? "");
    const driver = caches.csiDrivers.store.get(volume?.spec.csi?.driver ?? "");
    return {
      member,
      claim,
      volume,
      attachments: attachments.filter(({ metadata }) => metadata.labels?.[MEMBER_LABEL] === member.name),
      attachRequired: driver?.spec.attachRequired ?? true,
    };
  });
}
