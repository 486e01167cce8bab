import { describe, expect, it } from "@jest/globals";
import { fsidOf, isUUID, volumeHandleOf, volumeUIDOf } from "../../../src/contracts/identity.ts";

const UID = "0f3c7f1e-5a0e-4c5e-9d53-0b8c3d2f1a10";

describe("a volume's identity", () => {
  it("makes a handle from the volume UID and gives it back", () => {
    expect(volumeHandleOf(UID)).toBe(`fs-${UID}`);
    expect(volumeUIDOf(`fs-${UID}`)).toBe(UID);
  });

  it.each([
    "",
    UID,
    `fs-${UID}x`,
    "fs-",
    `fs-../${UID}`,
    `FS-${UID}`,
    `fs-${UID.toUpperCase()}`,
    `fs-${UID}/..`,
    `fs-${UID}\n`,
  ])("%p is no handle of ours", (text) => {
    expect(volumeUIDOf(text)).toBeUndefined();
  });

  it("chooses the filesystem's UUID from the volume UID alone, and never the same as the UID", () => {
    expect(isUUID(fsidOf(UID))).toBe(true);
    expect(fsidOf(UID)).not.toBe(UID);
    expect(fsidOf(UID)).toBe(fsidOf(UID));
    expect(fsidOf("0f3c7f1e-5a0e-4c5e-9d53-0b8c3d2f1a11")).not.toBe(fsidOf(UID));
  });
});
