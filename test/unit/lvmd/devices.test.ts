// What the kernel counts of one device, read alone and among all: on this machine's own.
import { isDeepStrictEqual } from "node:util";
import { describe, expect, it } from "@jest/globals";
import { readDiskFigures, readFiguresOf, volumeUUIDOf } from "../../../src/lvmd/devices.ts";
import { waitFor } from "../../harness/wait-for.ts";

describe("the figures of one device", () => {
  it("are those that the list of all devices has of it", async () => {
    const compared = await waitFor("a device that nobody uses just now", async () => {
      const before = readDiskFigures();
      const pairs = [...before].map(([numbers, first]) => {
        const [major = 0, minor = 0] = numbers.split(":").map(Number);
        return { numbers, first, alone: readFiguresOf({ major, minor }) };
      });
      const after = readDiskFigures();
      const atRest = pairs.filter(({ numbers, first }) => isDeepStrictEqual(first, after.get(numbers)));
      return atRest.length > 0 ? atRest : undefined;
    });
    for (const { first, alone } of compared) expect(alone).toEqual(first);
  });

  it("are not known of one that is not there", () => {
    expect(readFiguresOf({ major: 0, minor: 0 })).toBeUndefined();
    expect(readFiguresOf(undefined)).toBeUndefined();
  });
});

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
