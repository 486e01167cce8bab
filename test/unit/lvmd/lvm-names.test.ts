import { describe, expect, it } from "@jest/globals";
import { refuseTags, refuseVolumeName } from "../../../src/lvmd/lvm/lvm-names.ts";

describe("a name for LVM", () => {
  it.each(["6f9619ff-8b86-d011-b42d-00c04fc964ff", "a", "_a", "+a.b-c", "x".repeat(127)])("may be %.20s", (name) => {
    expect(refuseVolumeName(name)).toBeUndefined();
  });

  it.each([
    "",
    "-a",
    "--config",
    ".",
    "..",
    "a/b",
    "a b",
    "a\n",
    "ä",
    "x".repeat(128),
    "snapshot1",
    "pvmove0",
    "a_tmeta",
  ])("may not be %j", (name) => {
    expect(refuseVolumeName(name)).toMatchObject({ code: "INVALID_ARGUMENT" });
  });
});

describe("a tag for LVM", () => {
  it("may name a claim", () => {
    expect(refuseTags(["tidemark.dev/claim=shop/db", "a:b&c#d!"])).toBeUndefined();
  });

  it.each(["", "-a", "a b", "a,b", "a\nb", "a\n", "@a", "x".repeat(1025), "tidemark.dev/wipe-begun"])(
    "may not be %j",
    (tag) => {
      expect(refuseTags(["fine", tag])).toMatchObject({ code: "INVALID_ARGUMENT" });
    },
  );
});
