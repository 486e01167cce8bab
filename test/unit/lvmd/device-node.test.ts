import { describe, expect, it } from "@jest/globals";
import { volumeUUIDOf } from "../../../src/lvmd/device-node.ts";

const GROUP = "kXpO8Dl0VwJzQ3f9mYb2uTnR7sCcEaGh";
const VOLUME = "0aB1cdEF2gH3IjKL4mNOpQrS5tUvWxYz";

describe("device-mapper's UUID", () => {
  it("tells that of the volume, as LVM writes it", () => {
    expect(volumeUUIDOf(`LVM-${GROUP}${VOLUME}`)).toBe("0aB1cd-EF2g-H3Ij-KL4m-NOpQ-rS5t-UvWxYz");
  });

  it.each([
    ["what LVM keeps beneath a volume", `LVM-${GROUP}${VOLUME}-real`],
    ["another's device", `CRYPT-LUKS2-${GROUP}`],
    ["none", undefined],
  ])("tells no volume's of %s", (_what, said) => {
    expect(volumeUUIDOf(said)).toBe("");
  });
});
