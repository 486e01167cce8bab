import { expect, it } from "@jest/globals";
import type {
  FilesystemLayoutStatus,
  LastOperation,
  MemberSpec,
  Operation,
} from "../../../../../src/contracts/kinds/filesystem-layout.ts";
import { decideMemberState } from "../../../../../src/operator/decide/members/decide-member-state.ts";
import { buildSpan, type SpanFields } from "../../../../builders/span.ts";

const DECIDED = "2030-01-01T00:00:00.000Z";
const TWO: SpanFields = { sizes: ["1Gi", "1Gi"] };
const LEAVING: SpanFields = { ...TWO, states: { m1: "Removed" } };
const ALL_LEAVE: SpanFields = { ...TWO, states: { m0: "Removed", m1: "Removed" } };
const SPARE: SpanFields = { ...TWO, states: { m1: "Spare" }, reported: { m1: null } };
const WIPED: SpanFields["reported"] = { m1: { state: "Removed" } };
const WORKING: Operation = {
  kind: "Shrink",
  from: "2Gi",
  to: "1Gi",
  epoch: 1,
  decidedAt: DECIDED,
  startedAt: DECIDED,
  step: "Removing",
};
const ended = (outcome: LastOperation["outcome"], decidedAt = DECIDED): LastOperation => ({
  kind: "Shrink",
  from: "2Gi",
  to: "1Gi",
  epoch: 1,
  decidedAt,
  startedAt: DECIDED,
  outcome,
  reached: "2Gi",
  endedAt: DECIDED,
});

it.each<[string, SpanFields, LastOperation | undefined, MemberSpec["state"]]>([
  ["stays as it is wanted", TWO, undefined, "Present"],
  ["is to leave while its node works on that", LEAVING, undefined, "Removed"],
  [
    "is to leave while its node has ended another target",
    LEAVING,
    ended("Cancelled", "2029-01-01T00:00:00Z"),
    "Removed",
  ],
  ["comes back when its node was cancelled", LEAVING, ended("Cancelled"), "Present"],
  ["comes back when its node could not", LEAVING, ended("FloorReached"), "Present"],
  ["is out when its node has succeeded", { ...LEAVING, reported: WIPED }, ended("Succeeded"), "Removed"],
  [
    "is out when it is wiped, though the rest was cancelled",
    { ...LEAVING, reported: WIPED },
    ended("Cancelled"),
    "Removed",
  ],
  ["is out when it is wiped, though it is wanted again", { ...TWO, reported: WIPED }, undefined, "Removed"],
  ["is a spare until its node has it in", SPARE, undefined, "Spare"],
  ["is a spare that its node has ready", { ...SPARE, reported: { m1: { state: "Spare" } } }, undefined, "Spare"],
  ["is one once an emergency has taken the spare in", { ...SPARE, reported: {} }, undefined, "Present"],
  [
    "that was dropped as a spare comes back when an emergency was faster",
    { ...LEAVING, sizes: ["2Gi", "1Gi"] },
    { ...ended("Succeeded"), kind: "Extend", decidedAt: undefined, emergency: true, startedAt: "2030-01-01T00:00:01Z" },
    "Present",
  ],
  [
    "is to leave though there was an emergency before that was decided",
    LEAVING,
    { ...ended("Succeeded"), kind: "Extend", decidedAt: undefined, emergency: true, startedAt: "2029-01-01T00:00:01Z" },
    "Removed",
  ],
  [
    "is to leave though the clock of the node was ahead in the emergency before that",
    LEAVING,
    { ...ended("Succeeded"), kind: "Extend", decidedAt: undefined, emergency: true, startedAt: "2030-01-01T06:00:00Z" },
    "Removed",
  ],
  [
    "comes back when an emergency came since, on a node whose clock is behind",
    { ...LEAVING, sizes: ["2Gi", "1Gi"] },
    { ...ended("Succeeded"), kind: "Extend", decidedAt: undefined, emergency: true, startedAt: "2029-01-01T00:00:01Z" },
    "Present",
  ],
  [
    "is never the last to leave on a node's word",
    { ...TWO, reported: { m0: { state: "Removed" }, m1: { state: "Removed" } } },
    undefined,
    "Present",
  ],
])("a member %s", (_what, fields, lastOperation, expected) => {
  const layout = buildSpan(fields);
  const target = { size: "1Gi", from: "2Gi", epoch: 1, decidedAt: DECIDED };
  const settled = { ...layout, spec: { ...layout.spec, target }, status: { ...layout.status, lastOperation } };
  const member = layout.spec.members?.[1];
  if (member === undefined) throw new Error("no m1");
  expect(decideMemberState(settled, member)).toBe(expected);
});

it.each<[string, string, Partial<FilesystemLayoutStatus>, MemberSpec["state"], SpanFields?]>([
  [
    "comes back when an emergency has ended that, and given as much as had left by then",
    "1Gi",
    { lastOperation: { ...ended("Succeeded"), kind: "Extend", emergency: true }, endedDecidedAt: DECIDED },
    "Present",
  ],
  ["comes back where a target of the present size lets nobody leave", "2Gi", {}, "Present"],
  ["is to leave while a target that lets it leave was not begun yet", "1Gi", {}, "Removed"],
  ["is to leave while its node still works on another target", "2Gi", { operation: WORKING }, "Removed"],
  ["is to leave with all others, as of a volume that is deleted", "2Gi", {}, "Removed", ALL_LEAVE],
])("a member that is asked to leave %s", (_what, size, status, expected, fields = LEAVING) => {
  const layout = buildSpan(fields);
  const target = { size, from: "2Gi", epoch: 1, decidedAt: DECIDED };
  const told = { ...layout, spec: { ...layout.spec, target }, status: { ...layout.status, ...status } };
  const member = layout.spec.members?.[1];
  if (member === undefined) throw new Error("no m1");
  expect(decideMemberState(told, member)).toBe(expected);
});

it.each<[string, Partial<FilesystemLayoutStatus>, MemberSpec["state"]]>([
  ["is a spare once its node has mounted the rest without it", {}, "Spare"],
  ["is not known while nothing is mounted", { mounted: false }, "Present"],
  ["is not known while another node has said so", { nodeName: "node-z" }, "Present"],
  ["is not known before its node has said what it has", { members: [] }, "Present"],
])("a member of a rebuilt layout, which has no size, %s", (_what, status, expected) => {
  const layout = buildSpan({ ...TWO, reported: { m1: null } });
  const [, m1] = layout.spec.members ?? [];
  if (m1 === undefined) throw new Error("no m1");
  const { size: _size, ...rebuilt } = m1;
  const mounted = { ...layout, status: { ...layout.status, ...status } };
  expect(decideMemberState(mounted, rebuilt)).toBe(expected);
});
