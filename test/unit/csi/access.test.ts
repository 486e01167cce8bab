import { describe, expect, it } from "@jest/globals";
import { accessOf } from "../../../src/csi/access.ts";
import { VolumeCapability_AccessMode_Mode as Mode, type VolumeCapability } from "../../../src/gen/csi/v1/csi.ts";

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
    expect(accessOf(mount(mode))).toEqual({ fsType: "btrfs", readOnly: false, singleWriter });
  });

  it("is read-only when its mode says so", () => {
    expect(accessOf(mount(Mode.SINGLE_NODE_READER_ONLY))).toMatchObject({ readOnly: true });
  });

  it.each<[string, VolumeCapability | undefined, RegExp]>([
    [
      "raw block",
      { accessType: { $case: "block", value: {} }, accessMode: { mode: Mode.SINGLE_NODE_WRITER } },
      /use volumeMode: Filesystem/,
    ],
    ["many nodes", mount(Mode.MULTI_NODE_MULTI_WRITER), /MULTI_NODE_MULTI_WRITER.*use ReadWriteOnce/],
    ["a mode that is none", mount(99 as Mode), /access mode 99/],
    ["mount options", mount(Mode.SINGLE_NODE_WRITER, ["noatime"]), /noatime/],
    ["nothing", undefined, /required/],
    ["no access mode", { ...mount(Mode.SINGLE_NODE_WRITER), accessMode: undefined }, /required/],
    ["an unknown access mode", mount(Mode.UNKNOWN), /required/],
  ])("of %s is refused with what to do", (_what, capability, message) => {
    expect(accessOf(capability)).toMatchObject({
      code: "INVALID_ARGUMENT",
      message: expect.stringMatching(message),
    });
  });
});
