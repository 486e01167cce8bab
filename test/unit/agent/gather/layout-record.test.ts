import { describe, expect, it } from "@jest/globals";
import {
  isRemovalWanted,
  LayoutError,
  recordWithLayout,
  targetOf,
} from "../../../../src/agent/gather/layout-record.ts";
import { GIB } from "../../../../src/contracts/quantities/quantity.ts";
import { buildLayout } from "../../../builders/filesystem-layout.ts";

const member = (file: string) => [{ name: "member-0", size: "1Gi", source: { loop: { file } } }];
const grant = { size: "2Gi", minAvailable: "100Mi", expiry: "2026-01-02T00:00:00Z", epoch: 5 };

describe("reading a layout", () => {
  it("gives a record of a volume that was never here", () => {
    expect(recordWithLayout(buildLayout(), undefined)).toMatchObject({
      fsType: "btrfs",
      memberName: "member-0",
      memberFile: "member-0.img",
      memberMade: false,
      initialSizeBytes: GIB,
      epoch: 0,
    });
  });

  it.each(["../escape", "a/b", ".hidden", "", "/etc/passwd", "a\0b", "-rf"])("refuses the member file %j", (file) => {
    expect(() => recordWithLayout(buildLayout({ members: member(file) }), undefined)).toThrow(LayoutError);
  });

  const logicalVolume = (volumeID: string, deviceClass = "ssd") =>
    buildLayout({
      backend: "lvm",
      members: [{ name: "member-0", source: { logicalVolume: { name: "fs-x", volumeID, deviceClass } } }],
    });

  it("gives a record of a logical volume, which was made elsewhere", () => {
    expect(recordWithLayout(logicalVolume("0a1b-uid"), undefined)).toMatchObject({
      backend: "lvm",
      memberName: "member-0",
      volumeID: "0a1b-uid",
      deviceClass: "ssd",
      memberMade: false,
    });
  });

  it.each(["../escape", "a/b", ".hidden", "", "-n", "a b", "a\0b", "x".repeat(128)])(
    "refuses the logical volume %j",
    (volumeID) => {
      expect(() => recordWithLayout(logicalVolume(volumeID), undefined)).toThrow(LayoutError);
    },
  );

  it.each(["", "a/b", "-rf", "x".repeat(64)])("refuses the device class %j", (deviceClass) => {
    expect(() => recordWithLayout(logicalVolume("uid", deviceClass), undefined)).toThrow(LayoutError);
  });

  it("refuses a logical volume whose layout says a file, and a backend that no agent serves", () => {
    expect(() => recordWithLayout(buildLayout({ backend: "lvm" }), undefined)).toThrow(/names no logical volume/);
    expect(() => recordWithLayout(buildLayout({ backend: "claim" }), undefined)).toThrow(/which no agent serves/);
  });

  it("keeps the logical volume that it has when the layout says another", () => {
    const kept = recordWithLayout(logicalVolume("first"), undefined);
    expect(recordWithLayout(logicalVolume("second"), kept)).toEqual(kept);
  });

  it("refuses a layout without a filesystem type, without members, or with a name that is no handle", () => {
    expect(() => recordWithLayout(buildLayout({ fsType: undefined }), undefined)).toThrow(/no fsType/);
    expect(() => recordWithLayout(buildLayout({ members: [] }), undefined)).toThrow(/0 members/);
    const layout = buildLayout();
    expect(() => recordWithLayout({ ...layout, metadata: { name: "fs-../../x" } }, undefined)).toThrow(LayoutError);
  });

  it("keeps what the node knows of its member when a rebuilt layout says less", () => {
    const kept = { ...recordWithLayout(buildLayout(), undefined), memberMade: true };
    const rebuilt = buildLayout({ members: undefined, fsType: undefined, claimRef: undefined });
    expect(recordWithLayout(rebuilt, kept)).toEqual(kept);
  });

  it("knows from the status that a member was made, when the node's record is lost", () => {
    const status = {
      epoch: 9,
      members: [{ name: "member-0", size: "4Gi", state: "Present" as const }],
    };
    expect(recordWithLayout(buildLayout({}, status), undefined)).toMatchObject({ memberMade: true, epoch: 9 });
  });

  it("still knows that a member was made after the status has called it missing, so that no empty one takes its place", () => {
    const members = [{ name: "member-0", size: "4Gi", state: "Missing" as const }];
    expect(recordWithLayout(buildLayout({}, { members }), undefined)).toMatchObject({ memberMade: true });
  });

  it("takes the highest epoch of target and grant, and never falls back", () => {
    const target = { size: "2Gi", from: "1Gi", epoch: 7, decidedAt: "2026-01-01T00:00:00Z" };
    const record = recordWithLayout(buildLayout({ target, emergency: grant }), undefined);
    expect(record.epoch).toBe(7);
    expect(recordWithLayout(buildLayout({ target: { ...target, epoch: 6 } }), record).epoch).toBe(7);
  });

  it("keeps an accepted grant under a newer leader's target, and drops a withdrawn one", () => {
    const record = recordWithLayout(buildLayout({ emergency: grant }), undefined);
    const target = { size: "2Gi", from: "1Gi", epoch: 8, decidedAt: "2026-01-01T00:00:00Z" };
    const later = recordWithLayout(buildLayout({ emergency: grant, target }), record);
    expect(later.grant).toEqual(grant);
    expect(recordWithLayout(buildLayout({ emergency: grant, target }), later).grant).toEqual(grant);
    expect(recordWithLayout(buildLayout({ target }), later).grant).toBeUndefined();
  });

  it("gives the target in bytes", () => {
    const target = { size: "2Gi", from: "1Gi", epoch: 7, decidedAt: "2026-01-01T00:00:00Z" };
    expect(targetOf(buildLayout({ target }))).toEqual({
      ...target,
      size: undefined,
      from: undefined,
      sizeBytes: 2 * GIB,
      fromBytes: GIB,
    });
    expect(targetOf(buildLayout())).toBeUndefined();
  });

  it("wants a removal only when all members say so", () => {
    const [one] = member("a");
    if (one === undefined) throw new Error("no member");
    expect(isRemovalWanted(buildLayout({ members: [{ ...one, state: "Removed" }] }))).toBe(true);
    expect(isRemovalWanted(buildLayout())).toBe(false);
    expect(isRemovalWanted(buildLayout({ members: [] }))).toBe(false);
    expect(isRemovalWanted(buildLayout({ members: undefined }))).toBe(false);
  });
});
