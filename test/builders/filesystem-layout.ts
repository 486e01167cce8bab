// A FilesystemLayout of one loop member, as the operator writes it.

import { volumeHandleOf } from "../../src/contracts/identity.ts";
import type {
  FilesystemLayout,
  FilesystemLayoutSpec,
  FilesystemLayoutStatus,
} from "../../src/contracts/kinds/filesystem-layout.ts";
import { API_VERSION } from "../../src/contracts/names.ts";

export const VOLUME_UID = "0a1b2c3d-0000-4000-8000-00000000000a";

export function buildLayout(
  spec: Partial<FilesystemLayoutSpec> = {},
  status?: FilesystemLayoutStatus,
): FilesystemLayout {
  return {
    apiVersion: API_VERSION,
    kind: "FilesystemLayout",
    metadata: { name: volumeHandleOf(VOLUME_UID), uid: "layout-uid", generation: 3 },
    spec: {
      claimRef: { namespace: "shop", name: "data", uid: VOLUME_UID },
      volumeUID: VOLUME_UID,
      backend: "loop",
      fsType: "btrfs",
      nodeName: "node-a",
      members: [{ name: "member-0", size: "1Gi", source: { loop: { file: "member-0.img" } } }],
      ...spec,
    },
    status,
  };
}
