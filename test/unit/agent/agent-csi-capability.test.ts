import { describe, expect, it } from "@jest/globals";
import { accessOf } from "../../../src/agent/csi-capability.ts";
import { CsiError } from "../../../src/agent/csi-error.ts";
import { VolumeCapability_AccessMode_Mode as Mode, type VolumeCapability } from "../../../src/gen/csi/v1/csi.ts";

const mount = (mode: Mode, mountFlags: string[] = []): VolumeCapability => ({
  accessType: { $case: "mount", value: { fsType: "btrfs", mountFlags, volumeMountGroup: "" } },
  accessMode: { mode },
});

describe("a requested capability", () => {
  it.each([Mode.SINGLE_NODE_WRITER, Mode.SINGLE_NODE_SINGLE_WRITER, Mode.SINGLE_NODE_MULTI_WRITER])(
    "is a writable mount on one node in mode %d",
    (mode) => {
      expect(accessOf(mount(mode), "fs-x")).toEqual({ fsType: "btrfs", readOnly: false });
    },
  );

  it("is read-only when its mode says so", () => {
    expect(accessOf(mount(Mode.SINGLE_NODE_READER_ONLY), "fs-x").readOnly).toBe(true);
  });

  it.each<[string, VolumeCapability | undefined, RegExp]>([
    [
      "raw block",
      { accessType: { $case: "block", value: {} }, accessMode: { mode: Mode.SINGLE_NODE_WRITER } },
      /volumeMode: Filesystem/,
    ],
    ["many nodes", mount(Mode.MULTI_NODE_MULTI_WRITER), /use ReadWriteOnce/],
    ["mount options", mount(Mode.SINGLE_NODE_WRITER, ["noatime"]), /noatime/],
    ["nothing", undefined, /required/],
    ["no access mode", { ...mount(Mode.SINGLE_NODE_WRITER), accessMode: undefined }, /required/],
  ])("of %s is refused with what to do", (_what, capability, message) => {
    expect(() => accessOf(capability, "fs-x")).toThrow(CsiError);
    expect(() => accessOf(capability, "fs-x")).toThrow(message);
  });
});
