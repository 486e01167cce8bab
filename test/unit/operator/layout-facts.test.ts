import { describe, expect, it } from "@jest/globals";
import type { FilesystemLayoutStatus, MemberSpec } from "../../../src/api/filesystem-layout.ts";
import { isOut } from "../../../src/operator/volume/layout-facts.ts";
import { buildSpanLayout, buildSpanMember } from "../../builders/span-layout.ts";

const LEAVING = { state: "Removed" } as const;
const m1 = buildSpanMember("m1", {}, LEAVING);
const reporting = (...states: ("Present" | "Missing" | "Removed")[]): FilesystemLayoutStatus => ({
  mounted: true,
  members: states.map((state) => ({ name: "m1", size: "1Gi", state })),
});

describe("a member that is asked to leave", () => {
  it.each<[string, boolean, MemberSpec, FilesystemLayoutStatus | undefined]>([
    ["is out once its node has said that it is wiped", true, m1, reporting("Removed")],
    ["is in while its node has it", false, m1, reporting("Present")],
    ["is in while its node does not find it", false, m1, reporting("Missing")],
    ["is in while its node says nothing of it: it has not looked yet", false, m1, reporting()],
    ["is in before the first report of all", false, m1, undefined],
    [
      "is out where no node was ever told of its device",
      true,
      buildSpanMember("m1", { uid: undefined }, LEAVING),
      reporting(),
    ],
    [
      "is in, whatever its node says, where it is not asked to leave",
      false,
      buildSpanMember("m1"),
      reporting("Removed"),
    ],
  ])("%s", (_what, expected, member, status) => {
    expect(isOut(buildSpanLayout({ members: [buildSpanMember("m0"), member] }, status), member)).toBe(expected);
  });
});
