import { describe, expect, it } from "@jest/globals";
import {
  decideFormat,
  type FormatFacts,
  type FormatSubject,
} from "../../../../../src/agent/storage/block/decide-format.ts";
import type { MemberRecord, MemberState } from "../../../../../src/agent/storage/block/member-record.ts";

const volume: FormatSubject = {
  handle: "fs-1",
  volumeUID: "uid-1",
  fsid: "fsid-1",
  fsType: "btrfs",
  member: "fs-1-0",
  remedy: "Move the file away",
};

function recorded(state: MemberState, overrides: Partial<MemberRecord> = {}): MemberRecord {
  return {
    volumeUID: "uid-1",
    memberFile: "fs-1-0",
    index: 0,
    count: 1,
    fsid: "fsid-1",
    fsType: "btrfs",
    state,
    ...overrides,
  };
}

const OURS = [{ type: "btrfs", uuid: "fsid-1" }];
const ANOTHER = [{ type: "btrfs", uuid: "fsid-2" }];
const EXT4 = [{ type: "ext4", uuid: "fsid-1" }];

describe("decideFormat", () => {
  it.each<[string, MemberRecord | undefined, FormatFacts["signatures"], number, string]>([
    ["formats what is new and empty", undefined, [], 0, "format"],
    ["formats again what a crash left between the record and mkfs", recorded("formatting"), [], 8192, "format"],
    ["keeps what a crash left between mkfs and its record", recorded("formatting"), OURS, 8192, "keep"],
    ["keeps a formatted filesystem", recorded("formatted"), OURS, 8192, "keep"],
    ["keeps a filesystem that was mounted", recorded("mounted"), OURS, 8192, "keep"],
    ["keeps our filesystem whose record is lost", undefined, OURS, 8192, "keep"],
    ["refuses data without signature or record", undefined, [], 4096, "SignatureFound"],
    ["refuses another filesystem on a new member", undefined, ANOTHER, 8192, "SignatureFound"],
    ["refuses another type with our fsid", undefined, EXT4, 8192, "SignatureFound"],
    ["refuses two signatures, ours among them", undefined, [...OURS, ...EXT4], 8192, "SignatureFound"],
    [
      "refuses a stranger's filesystem that came while ours was made",
      recorded("formatting"),
      ANOTHER,
      1,
      "SignatureFound",
    ],
    ["refuses another filesystem than the recorded one", recorded("mounted"), ANOTHER, 8192, "WrongFilesystem"],
    ["refuses to format what was formatted before", recorded("formatted"), [], 8192, "AlreadyFormatted"],
    ["refuses to format what was mounted before, even when empty", recorded("mounted"), [], 0, "AlreadyFormatted"],
    ["refuses another volume's record", recorded("formatting", { volumeUID: "uid-2" }), [], 0, "WrongFilesystem"],
    ["refuses a record of another type", recorded("formatting", { fsType: "xfs" }), [], 0, "WrongFilesystem"],
  ])("%s", (_name, record, signatures, allocatedBytes, expected) => {
    const unknownData = allocatedBytes === 0 ? undefined : `holds ${allocatedBytes} bytes of unknown data`;
    const decision = decideFormat(volume, { record, signatures, unknownData });
    expect(decision.kind === "refuse" ? decision.code : decision.kind).toBe(expected);
    if (decision.kind === "refuse") expect(decision.message).toContain("fs-1");
  });
});
