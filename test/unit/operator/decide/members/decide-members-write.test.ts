// What people read of members after a pass, and whose trouble counts for what.
import { expect, it } from "@jest/globals";
import type { MemberSpec } from "../../../../../src/contracts/kinds/filesystem-layout.ts";
import { membersReport, type PassedMember } from "../../../../../src/operator/decide/members/decide-members-write.ts";
import { spanMember } from "../../../../builders/span.ts";

const passed = (found: MemberSpec, waiting?: string, wrong?: string): PassedMember => ({
  found,
  source: undefined,
  waiting,
  wrong,
});
const [m0, m1] = [spanMember("m0", "2Gi"), spanMember("m1", "1Gi")];
const spare = spanMember("m2", "1Gi", "Spare");

it("the volume's problem is that of its first member that has one, and it waits for each", () => {
  const report = membersReport(
    [passed(m0, "m0 waits"), passed(m1, "m1 waits", "m1 fails"), passed(spare)],
    ["m9 goes"],
  );
  expect(report).toEqual({
    waiting: ["m0 waits", "m1 waits", "m9 goes"],
    problem: { reason: "MemberFailed", message: "m1 fails" },
    spare: undefined,
  });
});

it("what a spare fails for, or waits for, is no problem of the volume", () => {
  expect(membersReport([passed(m0), passed(spare, "m2 waits", "m2 fails")], [])).toEqual({
    waiting: [],
    problem: undefined,
    spare: "m2 fails",
  });
  expect(membersReport([passed(spare, "m2 waits")], []).spare).toBe("m2 waits");
});

it("nothing waits for a member whose device carries something", () => {
  const refused = { ...spare, refused: "it carries ext4" };
  expect(membersReport([passed(refused, "m2 waits", "m2 fails")], [])).toEqual({
    waiting: [],
    problem: undefined,
    spare: undefined,
  });
});
