// Which record of a removal is believed: one of the device that the member is now.
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, describe, expect, it } from "@jest/globals";
import type { SpanMember } from "../../../../../src/agent/member-drivers/span-member.ts";
import { membersLeft } from "../../../../../src/agent/storage/span/members-left.ts";
import type { SpanHost } from "../../../../../src/agent/storage/span/span-host.ts";
import {
  type Removal,
  removalOf,
  type SpanRecord,
  spanRecordPath,
  spanRecordText,
} from "../../../../../src/agent/storage/span/span-record.ts";
import type { SpanVolume } from "../../../../../src/agent/storage/storage.ts";

const FORMER = "aaaaaaaa-0000-4000-8000-000000000000";
const PRESENT = "bbbbbbbb-0000-4000-8000-000000000000";
const directories: string[] = [];
afterEach(() => {
  for (const directory of directories.splice(0)) rmSync(directory, { recursive: true });
});

const member = (deviceUUID?: string, wasInside = deviceUUID !== undefined): SpanMember => ({
  name: "m1",
  claim: "claim-m1",
  wanted: "Present",
  wasInside,
  ...(deviceUUID === undefined ? {} : { reported: { deviceUUID, devid: 3 } }),
});
const recordOf = (deviceUUID: string, state: Removal["state"]): SpanRecord => ({
  volumeUID: "uid",
  fsid: "fsid",
  fsType: "btrfs",
  state: "mounted",
  removals: [{ member: "m1", devid: 2, deviceUUID, sizeBytes: 1, state }],
});

describe("a record of a member's removal", () => {
  it.each<[string, string, SpanMember, Removal["state"][]]>([
    ["of the device that was reported last is believed", PRESENT, member(PRESENT), ["leaving", "released"]],
    ["is believed where nothing was reported since", FORMER, member(), ["leaving", "released"]],
    ["that names no device is believed until one is reported", "", member(), ["leaving", "released"]],
    ["that names no device is not believed where one is reported", "", member(PRESENT), []],
    ["of a device that was added again elsewhere is not", FORMER, member(PRESENT), []],
    [
      "is believed to be begun, not ended, where it was found inside as nobody knows which",
      FORMER,
      member(undefined, true),
      ["leaving"],
    ],
  ])("%s", (_which, recorded, one, believed) => {
    const isBelieved = believed.includes("released");
    for (const state of ["leaving", "released"] as const)
      expect(removalOf(recordOf(recorded, state), one) !== undefined).toBe(believed.includes(state));
    const host = { recordDirectory: mkdtempSync(join(tmpdir(), "tidemark-removals-")) } as SpanHost;
    directories.push(host.recordDirectory);
    const volume = { handle: "fs-1", members: [one] } as unknown as SpanVolume;
    writeFileSync(spanRecordPath(host, volume), spanRecordText(recordOf(recorded, "released")));
    expect(membersLeft(host, volume)).toEqual(isBelieved ? [] : [one]);
  });
});
