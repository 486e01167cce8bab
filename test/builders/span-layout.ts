// A FilesystemLayout of several member claims, as the operator writes it.
import type {
  FilesystemLayout,
  FilesystemLayoutSpec,
  FilesystemLayoutStatus,
  MemberSpec,
} from "../../src/contracts/kinds/filesystem-layout.ts";
import { buildLayout } from "./filesystem-layout.ts";

type Claim = NonNullable<MemberSpec["source"]["claim"]>;

export function buildSpanLayout(
  spec: Partial<FilesystemLayoutSpec> = {},
  status?: FilesystemLayoutStatus,
): FilesystemLayout {
  return buildLayout({ backend: "span", members: [buildSpanMember("m0")], ...spec }, status);
}

/** Bound, and attached to node-a; `claim` changes that. */
export function buildSpanMember(
  name: string,
  claim: Partial<Claim> = {},
  member: Partial<MemberSpec> = {},
): MemberSpec {
  return {
    name,
    size: "1Gi",
    source: {
      claim: {
        name: `claim-${name}`,
        uid: `uid-${name}`,
        volumeName: `pv-${name}`,
        driver: "members.example.com",
        volumeHandle: `volume-${name}`,
        capacity: "1Gi",
        attachment: { nodeName: "node-a", name: `attachment-${name}`, context: { lun: "7" } },
        ...claim,
      },
    },
    ...member,
  };
}
