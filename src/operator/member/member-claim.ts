// A member's claim, and what its PersistentVolume must carry, as they are written. Pure.
import type { MemberSpec } from "../../api/filesystem-layout.ts";
import { REFUSED_ANNOTATION, SELECTED_NODE } from "../../api/names.ts";
import type { PersistentVolume, PersistentVolumeClaim } from "../../kube/resources.ts";
import type { Marks } from "./decide-marks.ts";
import { memberClaimName, memberLabels } from "./member-names.ts";

/** GitOps tools leave alone what they find: a member holds data, whatever a repository says. */
export const KEPT_BY_GITOPS = {
  "argocd.argoproj.io/sync-options": "Prune=false,Delete=false",
  "kustomize.toolkit.fluxcd.io/prune": "disabled",
} as const;

export interface ClaimOrder {
  readonly handle: string;
  readonly volumeUID: string;
  readonly className: string;
  /** For classes that wait for a consumer: the provisioner makes the volume for this node. */
  readonly selectedNode: string | undefined;
  /** Of the volume's own claim. */
  readonly marks?: Marks | undefined;
}

export function memberClaim(
  order: ClaimOrder,
  { name, size }: Pick<MemberSpec, "name" | "size">,
): PersistentVolumeClaim {
  const { handle, volumeUID, className, selectedNode, marks } = order;
  return {
    apiVersion: "v1",
    kind: "PersistentVolumeClaim",
    metadata: {
      ...memberClaimName(handle, name),
      labels: { ...marks?.labels, ...memberLabels(volumeUID, name) },
      annotations: {
        ...marks?.annotations,
        ...KEPT_BY_GITOPS,
        ...(selectedNode === undefined ? {} : { [SELECTED_NODE]: selectedNode }),
      },
    },
    spec: {
      accessModes: ["ReadWriteOnce"],
      volumeMode: "Block",
      storageClassName: className,
      resources: { requests: { storage: size } },
    },
  };
}

/**
 * What a member's PersistentVolume must say before anything is written to it; undefined: it says so. That the member was refused is said there,
 * too: a layout that is made again must not wait for it.
 */
export function keptVolume(
  volume: PersistentVolume,
  volumeUID: string,
  { name, refused }: Pick<MemberSpec, "name" | "refused">,
): object | undefined {
  const { metadata, spec } = volume;
  const labels = memberLabels(volumeUID, name);
  const carries = Object.entries(labels).every(([key, value]) => metadata.labels?.[key] === value);
  const saysWhy = metadata.annotations?.[REFUSED_ANNOTATION] === refused;
  if (carries && saysWhy && spec.persistentVolumeReclaimPolicy === "Retain") return undefined;
  const annotations = saysWhy ? {} : { annotations: { [REFUSED_ANNOTATION]: refused ?? null } };
  return { metadata: { labels, ...annotations }, spec: { persistentVolumeReclaimPolicy: "Retain" } };
}

/** Why this volume cannot be a member; undefined: it can. */
export function unfitVolume(volume: PersistentVolume, claim: PersistentVolumeClaim): string | undefined {
  const { name } = volume.metadata;
  if (volume.spec.claimRef?.uid !== claim.metadata.uid)
    return `PersistentVolume ${name} and claim ${claim.metadata.name} do not name each other`;
  if (volume.spec.csi === undefined)
    return `PersistentVolume ${name} of class ${claim.spec.storageClassName} is of no CSI driver`;
  if (volume.spec.volumeMode !== "Block") return `PersistentVolume ${name} is no block device`;
  return undefined;
}
