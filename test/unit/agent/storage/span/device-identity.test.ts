import { describe, expect, it } from "@jest/globals";
import { parseSuperblock } from "../../../../../src/agent/storage/span/device-identity.ts";

// As btrfs-progs 6.2 prints it with --force; the fields that are read, between two that are not.
const SUPERBLOCK = `superblock: bytenr=65536, device=/dev/loop4
---------------------------------------------------------
csum			0x344024f4 [match]
magic			_BHRfS_M [match]
fsid			11111111-1111-4111-8111-111111111115
metadata_uuid		22222222-1111-4111-8111-111111111115
generation		6
chunk_root_generation	5
num_devices		2
dev_item.uuid		f8d39654-d495-47b2-a25f-ff986ded68bb
dev_item.fsid		33333333-1111-4111-8111-111111111115 [DON'T MATCH]
dev_item.devid		3
dev_item.generation	0
`;
const FSID = "11111111-1111-4111-8111-111111111115";
const OURS = {
  devid: 3,
  deviceUUID: "f8d39654-d495-47b2-a25f-ff986ded68bb",
  generation: 6,
  deviceCount: 2,
  valid: true,
};

describe("what a superblock says of its device", () => {
  it("is which device of how many it is, as of which commit", () => {
    expect(parseSuperblock(SUPERBLOCK, FSID)).toEqual(OURS);
  });

  it("is not valid any more once the kernel has taken it out", () => {
    const out = SUPERBLOCK.replace("_BHRfS_M [match]", "........ [DON'T MATCH]");
    expect(parseSuperblock(out, FSID)).toEqual({ ...OURS, valid: false });
  });

  it.each<[string, string]>([
    ["another filesystem's", SUPERBLOCK.replace(FSID, FSID.replaceAll("1", "0"))],
    ["without its number", SUPERBLOCK.replace(/^dev_item.devid.*$/m, "")],
    ["nothing at all", ""],
  ])("is nothing where it is %s", (_what, text) => {
    expect(parseSuperblock(text, FSID)).toBeUndefined();
  });
});
