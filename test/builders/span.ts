// A span volume's layout for tests: members m0, m1, … of these sizes, each reported by its node as it was asked for.
import type {
  FilesystemLayout,
  FilesystemLayoutStatus,
  MemberSpec,
} from "../../src/contracts/kinds/filesystem-layout.ts";
import { RECORDS } from "../../src/contracts/names.ts";
import { buildLayout, HANDLE, NODE } from "./volume.ts";

type ReportedState = NonNullable<FilesystemLayoutStatus["members"]>[number]["state"];

export interface SpanFields {
  readonly sizes: readonly string[];
  /** By name; absent: Present. */
  readonly states?: Readonly<Record<string, MemberSpec["state"]>>;
  /** By name, where the node reports something else; null: it does not report the member. */
  readonly reported?: Readonly<Record<string, { size?: string; state?: ReportedState; allocated?: string } | null>>;
  /** What an emergency may grow it to. */
  readonly granted?: string;
  readonly nextMember?: number;
}

export function buildSpan({ sizes, states = {}, reported = {}, nextMember, granted }: SpanFields): FilesystemLayout {
  const members = sizes.map((size, index) => spanMember(`m${index}`, size, states[`m${index}`]));
  const status = members.flatMap(({ name, size = "" }) => {
    const other = reported[name];
    return other === null ? [] : [{ name, size, state: "Present" as const, ...other }];
  });
  return buildLayout({
    spec: {
      backend: "span",
      fsType: "btrfs",
      members,
      ...(granted === undefined ? {} : { emergency: grant(granted) }),
    },
    status: { nodeName: NODE, mounted: true, members: status },
    annotations: {
      [RECORDS.requestedSize]: "10Gi",
      [RECORDS.memberClass]: "member-class",
      ...(nextMember === undefined ? {} : { "tidemark.dev/next-member": String(nextMember) }),
    },
  });
}

function grant(size: string): NonNullable<FilesystemLayout["spec"]["emergency"]> {
  return { size, minAvailable: "200Mi", expiry: "2030-01-02T00:00:00Z", epoch: 1 };
}

export function spanMember(name: string, size: string, state: MemberSpec["state"] = "Present"): MemberSpec {
  const source = {
    name: `${HANDLE}-${name}`,
    uid: `uid-${name}`,
    volumeName: `pv-${name}`,
    driver: "member.example.com",
  };
  return { name, size, state, source: { claim: source } };
}
