// Whether an ordinary claim gets a Filesystem, and what its layout says: the claim is its own only member. Pure. What was adopted
// once stays until the claim goes, so that a policy that comes back finds what it knew; nobody applies anything meanwhile.

import { claimResizeOf } from "../../api/claim-resize.ts";
import type { SizeTarget } from "../../api/filesystem.ts";
import {
  type ClaimSource,
  FILESYSTEM_LAYOUTS,
  type FilesystemLayout,
  FS_TYPES,
  type MemberSpec,
} from "../../api/filesystem-layout.ts";
import { API_VERSION, RECORDS, REFUSAL_ANNOTATION } from "../../api/names.ts";
import { driverNamed } from "../../csi/driver.ts";
import type { ApplyConfiguration } from "../../kube/client/client.ts";
import type { PersistentVolume } from "../../kube/resources.ts";
import { readQuantity } from "../../units/quantity.ts";
import type { OrdinaryClaim } from "./claim-facts.ts";

/** The only member of an ordinary claim's filesystem. */
const MEMBER_NAME = "claim";

/** Whether it is, or is to be, a filesystem of the backend claim. */
export function isAdopted(facts: OrdinaryClaim): boolean {
  const { claim, volume, storageClass, layout } = facts;
  if (volume === undefined || (layout !== undefined && layout.spec.backend !== "claim")) return false;
  // Only CSI drivers expand, and only what has a filesystem is measured.
  if (volume.spec.csi === undefined || claim.spec.volumeMode === "Block") return false;
  if (driverNamed(volume.spec.csi.driver) !== undefined) return false;
  if (layout !== undefined) return true;
  const isSized = claimResizeOf(claim) !== undefined;
  return facts.optedInBy !== undefined && storageClass?.allowVolumeExpansion === true && isSized;
}

/** The last target that was carried out, or set aside. */
export interface CarriedTarget {
  readonly target: SizeTarget;
  /** What the API server said against it, for people. */
  readonly refusal: string | undefined;
}

export function carriedTarget({ metadata, spec }: FilesystemLayout): CarriedTarget | undefined {
  return spec.target && { target: spec.target, refusal: metadata.annotations?.[REFUSAL_ANNOTATION] };
}

/** The whole layout. */
export function claimLayout(
  facts: OrdinaryClaim,
  volume: PersistentVolume,
  carried: CarriedTarget | undefined,
): ApplyConfiguration {
  const { handle, claim, nodeName } = facts;
  const { namespace, name, uid } = claim.metadata;
  const fsType = FS_TYPES.find((known) => known === volume.spec.csi?.fsType);
  const members: MemberSpec[] = [{ name: MEMBER_NAME, source: { claim: sourceOf({ claim }, volume) } }];
  return {
    apiVersion: API_VERSION,
    kind: FILESYSTEM_LAYOUTS.kind,
    metadata: {
      name: handle,
      annotations: {
        [RECORDS.requestedSize]: nominalSize(facts),
        ...(carried?.refusal === undefined ? {} : { [REFUSAL_ANNOTATION]: carried.refusal }),
      },
    },
    spec: {
      claimRef: { namespace, name, uid },
      volumeUID: uid,
      backend: "claim",
      ...(fsType === undefined ? {} : { fsType }),
      ...(nodeName === undefined ? {} : { nodeName }),
      members,
      ...(carried === undefined ? {} : { target: carried.target }),
    },
  };
}

function sourceOf({ claim }: Pick<OrdinaryClaim, "claim">, { metadata, spec }: PersistentVolume): ClaimSource {
  const capacity = claim.status?.capacity?.storage;
  return {
    name: claim.metadata.name,
    ...(claim.metadata.uid === undefined ? {} : { uid: claim.metadata.uid }),
    volumeName: metadata.name,
    ...(spec.csi === undefined ? {} : { driver: spec.csi.driver, volumeHandle: spec.csi.volumeHandle }),
    ...(capacity === undefined ? {} : { capacity }),
  };
}

// A request over all that we asked for is its user's, and so is one under the record: we never lower one, and the API server lets
// him down to what was provided. Limits that default to the nominal size follow him, and never us.
function nominalSize({ claim, layout, filesystem }: OrdinaryClaim): string {
  const request = claim.spec.resources?.requests?.storage;
  const recorded = layout?.metadata.annotations?.[RECORDS.requestedSize];
  // What cannot be read, people have written over.
  const [requestBytes, recordedBytes] = [readQuantity(request), readQuantity(recorded)];
  if (recorded === undefined || recordedBytes === undefined) return request ?? "0";
  if (request === undefined || requestBytes === undefined) return recorded;
  // The claim may be heard of before the layout that says what was asked for.
  const asked = [layout?.spec.target, filesystem?.spec.target].map((target) => readQuantity(target?.size) ?? 0);
  return requestBytes < recordedBytes || requestBytes > Math.max(...asked, recordedBytes) ? request : recorded;
}
