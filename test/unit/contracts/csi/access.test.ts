import { describe, expect, it } from "@jest/globals";
import { accessOf, requireMode } from "../../../../src/contracts/csi/access.ts";
import {
  VolumeCapability_AccessMode_Mode as Mode,
  type VolumeCapability,
} from "../../../../src/contracts/gen/csi/v1/csi.ts";
import { OWN_BACKENDS } from "../../../../src/contracts/kinds/filesystem-layout.ts";
import { blockCapability } from "../../../builders/create-volume-request.ts";

const mount = (mode: Mode, mountFlags: string[] = []): VolumeCapability => ({
  accessType: { $case: "mount", value: { fsType: "btrfs", mountFlags, volumeMountGroup: "" } },
  accessMode: { mode },
});

describe("a requested capability", () => {
  it.each([
    [Mode.SINGLE_NODE_WRITER, false],
    [Mode.SINGLE_NODE_MULTI_WRITER, false],
    [Mode.SINGLE_NODE_SINGLE_WRITER, true],
  ])("is a writable mount on one node in mode %d, with one writer only where it says so", (mode, singleWriter) => {
    expect(accessOf(mount(mode))).toEqual({ volumeMode: "Filesystem", fsType: "btrfs", readOnly: false, singleWriter });
  });

  it("is read-only when its mode says so", () => {
    expect(accessOf(mount(Mode.SINGLE_NODE_READER_ONLY))).toMatchObject({ readOnly: true });
  });

  it("is a raw device where it asks for one, with no filesystem type", () => {
    expect(accessOf(blockCapability())).toMatchObject({ volumeMode: "Block", fsType: "" });
  });

  it("is for a raw device on the backend lvm alone", () => {
    for (const backend of ["loop", "span"] as const)
      expect(() => requireMode("Block", backend)).toThrow(
        expect.objectContaining({
          code: "INVALID_ARGUMENT",
          message: expect.stringContaining("use volumeMode: Filesystem"),
        }),
      );
    requireMode("Block", "lvm");
    for (const backend of OWN_BACKENDS) requireMode("Filesystem", backend);
  });

  it.each<[string, VolumeCapability | undefined, RegExp]>([
    ["a raw device on many nodes", blockCapability(Mode.MULTI_NODE_MULTI_WRITER), /use ReadWriteOnce/],
    ["many nodes", mount(Mode.MULTI_NODE_MULTI_WRITER), /MULTI_NODE_MULTI_WRITER.*use ReadWriteOnce/],
    ["a mode that is none", mount(99 as Mode), /access mode 99/],
    ["mount options", mount(Mode.SINGLE_NODE_WRITER, ["noatime"]), /noatime/],
    ["nothing", undefined, /required/],
    ["no access mode", { ...mount(Mode.SINGLE_NODE_WRITER), accessMode: undefined }, /required/],
    ["an unknown access mode", mount(Mode.UNKNOWN), /required/],
  ])("of %s is refused with what to do", (_what, capability, message) => {
    expect(() => accessOf(capability)).toThrow(
      expect.objectContaining({ code: "INVALID_ARGUMENT", message: expect.stringMatching(message) }),
    );
  });
});
