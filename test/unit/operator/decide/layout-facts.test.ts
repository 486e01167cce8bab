import { describe, expect, it } from "@jest/globals";
import type { FilesystemLayoutStatus, MemberSpec } from "../../../../src/contracts/kinds/filesystem-layout.ts";
import { isAtRest, isMounted, isOut } from "../../../../src/operator/decide/layout-facts.ts";
import { isWhole } from "../../../../src/operator/decide/members/decide-consolidation.ts";
import { decideSpare } from "../../../../src/operator/decide/members/decide-spare.ts";
import { buildSpan } from "../../../builders/span.ts";
import { buildSpanLayout, buildSpanMember } from "../../../builders/span-layout.ts";

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

describe("a span whose node has members of it", () => {
  const span = buildSpan({ sizes: ["2Gi"], granted: "4500Mi" });
  const saying = (status: "True" | "False", reason: string) => {
    const condition = { type: "Reconciling", status, reason, message: "", lastTransitionTime: "2030-01-01T00:00:00Z" };
    return { ...span, status: { ...span.status, nodeName: span.spec.nodeName, conditions: [condition] } };
  };
  const rules = { className: "member-class", maxMembers: 4, spareMembers: 1, strategy: "Auto" as const };
  const begun = (layout: typeof span) => [
    isMounted(layout),
    isAtRest(layout),
    isWhole(layout),
    decideSpare(layout, rules).do,
  ];

  it("is neither merged nor gets a spare while it is not mounted", () => {
    expect(begun(saying("True", "MembersHeld"))).toEqual([false, false, false, "keep"]);
  });

  it.each([
    ["True", "WaitingForMember"],
    ["False", "Ready"],
  ] as const)("is mounted where that is %s for %s", (status, reason) => {
    expect(begun(saying(status, reason))).toEqual([true, true, true, "order"]);
  });
});
