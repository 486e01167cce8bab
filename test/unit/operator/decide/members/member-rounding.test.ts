import { expect, it } from "@jest/globals";
import type { FilesystemLayout } from "../../../../../src/contracts/kinds/filesystem-layout.ts";
import { MEMBER_ROUNDED_ANNOTATION, RECORDS } from "../../../../../src/contracts/names.ts";
import { GIB } from "../../../../../src/contracts/quantities/quantity.ts";
import { targetFields } from "../../../../../src/operator/decide/decide-layout-write.ts";
import {
  classRoundings,
  expectedBytes,
  GROWTH_MEMORY_MS,
} from "../../../../../src/operator/decide/members/member-growth.ts";
import { changedLayout } from "../../../../../src/operator/volumes/layout-fields.ts";
import { carriedOut, mounted } from "../../../../harness/span-steps.ts";

const NOW_MS = Date.parse("2030-01-01T00:02:00.000Z");
const DECIDED = "2030-01-01T00:00:00.000Z";
const RULES = { className: "member-class", maxMembers: 4, spareMembers: 0, strategy: "Auto" as const };
const ROUNDING = { askedBytes: 2 * GIB, gotBytes: 4 * GIB };

function saying(text: string, className = "member-class"): FilesystemLayout {
  const layout = mounted("4Gi");
  const annotations = {
    [RECORDS.memberClass]: className,
    [RECORDS.maxMembers]: "4",
    [MEMBER_ROUNDED_ANNOTATION]: text,
  };
  return { ...layout, metadata: { ...layout.metadata, annotations } };
}

it("the write that lets go of a member that was made too large is what remembers it, for its class, for an hour", () => {
  const target = { size: "2Gi", from: "4Gi", epoch: 3, decidedAt: DECIDED };
  const decide = (layout: FilesystemLayout) =>
    targetFields(layout, target, { rules: RULES, mayGrow: false, growthFailed: false }, NOW_MS);
  const layout = mounted("4Gi");
  const ordered = decide(layout);
  if (!("fields" in ordered)) throw new Error("nothing is ordered");
  const made = { ...layout, spec: { ...layout.spec, members: ordered.fields.members ?? [] } };
  const decided = decide(carriedOut(made, "Succeeded", { m1: "4Gi" }));
  if (!("fields" in decided)) throw new Error("it is not let go of");
  const { annotations } = changedLayout(made, decided.fields).metadata;
  expect(annotations?.[MEMBER_ROUNDED_ANNOTATION]).toBe("2030-01-01T00:02:00.000Z 2Gi 4Gi");
  const written = saying(annotations?.[MEMBER_ROUNDED_ANNOTATION] ?? "");
  expect(classRoundings([written], "member-class", NOW_MS)).toEqual([ROUNDING]);
  expect(classRoundings([written], "member-class", NOW_MS + GROWTH_MEMORY_MS - 1)).toEqual([ROUNDING]);
  expect(classRoundings([written], "member-class", NOW_MS + GROWTH_MEMORY_MS)).toEqual([]);
  expect(classRoundings([written], "another-class", NOW_MS)).toEqual([]);
  // What is written next of the layout carries it on.
  expect(changedLayout(written, {}).metadata.annotations).toHaveProperty([MEMBER_ROUNDED_ANNOTATION]);
});

it.each([
  "",
  "yesterday 2Gi 4Gi",
  "2030-01-01T00:00:00.000Z",
  "2030-01-01T00:00:00.000Z 2Gi",
  "2030-01-01T00:00:00.000Z two 4Gi",
  "2031-01-01T00:00:00.000Z 2Gi 4Gi",
])("a text that says no such thing, or is of a clock that was wrong, is nothing: %j", (text) => {
  expect(classRoundings([saying(text)], "member-class", NOW_MS)).toEqual([]);
});

it("a class makes no less where more is asked for", () => {
  const known = [ROUNDING, { askedBytes: 8 * GIB, gotBytes: 16 * GIB }];
  const expected = [1, 2, 3, 5, 8, 20].map((gib) => expectedBytes(known, gib * GIB) / GIB);
  expect(expected).toEqual([1, 4, 4, 5, 16, 20]);
});
