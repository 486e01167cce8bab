// Which record of a removal is believed: one of the device that the member is now.
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, describe, expect, it } from "@jest/globals";
import type { SpanMember } from "../../../../../src/agent/member-drivers/span-member.ts";
import {
  membersLeft,
  type Removal,
  readSpanRecord,
  removalOf,
  type SpanHost,
  type SpanStorageRecord,
  spanRecordPath,
  spanRecordText,
} from "../../../../../src/agent/storage/span/span-host.ts";
import type { SpanVolume } from "../../../../../src/agent/storage/storage.ts";
import { doubleOf } from "../../../../fakes/double-of.ts";

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
const recordOf = (deviceUUID: string, state: Removal["state"]): SpanStorageRecord => ({
  volumeUID: "uid",
  fsid: "fsid",
  fsType: "btrfs",
  state: "mounted",
  removals: [{ member: "m1", devid: 2, deviceUUID, sizeBytes: 1, state }],
});

function hostOf(): SpanHost {
  const recordDirectory = mkdtempSync(join(tmpdir(), "tidemark-removals-"));
  directories.push(recordDirectory);
  return doubleOf<SpanHost>("SpanHost", { recordDirectory });
}

const VOLUME = { driver: "members.example.com", volumeHandle: "a" };
const ofVolume = (volume?: Partial<typeof VOLUME>, persistentVolumeUID?: string): SpanMember => ({
  ...member(),
  ...(volume === undefined ? {} : { volume: { ...VOLUME, ...volume, volumeAttributes: {} } }),
  ...(persistentVolumeUID === undefined ? {} : { persistentVolumeUID }),
});

describe("a record of a member's removal", () => {
  it.each<[string, Partial<Removal>, SpanMember, boolean]>([
    ["is believed of the volume that it names", { volume: VOLUME }, ofVolume({}), true],
    ["is believed where one of the two knows no PersistentVolume", { volume: VOLUME }, ofVolume({}, "uid"), true],
    ["is not believed of another volume", { volume: VOLUME }, ofVolume({ volumeHandle: "b" }), false],
    ["is not believed of another driver's volume", { volume: VOLUME }, ofVolume({ driver: "b.example.com" }), false],
    [
      "is not believed of a volume that was made anew",
      { volume: { ...VOLUME, persistentVolumeUID: "uid" } },
      ofVolume({}, "another"),
      false,
    ],
    ["is not believed of a member that has no volume yet", { volume: VOLUME }, ofVolume(), false],
    ["that an earlier version wrote is believed, without a volume", {}, ofVolume({}), true],
    ["of a member that had no volume is not believed of one that has", { epoch: 1 }, ofVolume({}), false],
    ["of a member that had no volume is believed as long as it has none", { epoch: 1 }, ofVolume(), true],
  ])("%s", (_which, known, one, believed) => {
    for (const state of ["leaving", "released"] as const) {
      const record = recordOf(FORMER, state);
      const removals = record.removals.map((removal) => ({ ...removal, ...known }));
      expect(removalOf({ ...record, removals }, one) !== undefined).toBe(believed);
    }
  });

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
    const host = hostOf();
    const volume = doubleOf<SpanVolume>("SpanVolume", { handle: "fs-1", members: [one] });
    writeFileSync(spanRecordPath(host, volume), spanRecordText(recordOf(recorded, "released")));
    expect(membersLeft(host, volume)).toEqual(isBelieved ? [] : [one]);
  });

  it("is refused by the number of its removals alone, where thousands are none", () => {
    const host = hostOf();
    const volume = doubleOf<SpanVolume>("SpanVolume", { handle: "fs-1" });
    const record = { ...recordOf("", "released"), removals: Array(30_000).fill(1) };
    writeFileSync(spanRecordPath(host, volume), JSON.stringify(record));
    const thrown = (): unknown => {
      try {
        return readSpanRecord(host, volume);
      } catch (error) {
        return error;
      }
    };
    expect(thrown()).toMatchObject({ code: "AlreadyFormatted", cause: { issues: [{ code: "too_big" }] } });
  });
});
