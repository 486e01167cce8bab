// Whether a merge that is decided begins, waits, or ends without one, by the turn that was taken before its layout was read.
import { expect, it } from "@jest/globals";
import type { FilesystemLayout, MemberSpec } from "../../../../src/contracts/kinds/filesystem-layout.ts";
import {
  decideMerge,
  type MergeFacts,
  type MergeTurn,
  needsTurn,
} from "../../../../src/operator/decide/decide-layout-write.ts";
import { mounted, unmounted } from "../../../harness/span-steps.ts";

const NODE = "node-a";
const DECIDED_AT = "2030-01-01T00:10:00.000Z";
const SOON_MS = Date.parse(DECIDED_AT) + 1000;
const LATE_MS = Date.parse(DECIDED_AT) + 600_000;
const WANTED = { size: "6Gi", from: "6Gi", epoch: 3, decidedAt: DECIDED_AT, members: 2 };

const three = mounted("2Gi", "2Gi", "2Gi");
const span: FilesystemLayout = {
  ...three,
  spec: { ...three.spec, nodeName: NODE },
  status: { ...three.status, nodeName: NODE },
};
const made: MemberSpec = {
  name: "m3",
  size: "4Gi",
  state: "Spare",
  replaces: { member: "m1", decidedAt: DECIDED_AT },
  source: {},
};
const ordered = { ...span, spec: { ...span.spec, members: [...(span.spec.members ?? []), made] } };

const facts = (way?: MergeTurn["way"], change: Partial<MergeFacts> = {}): MergeFacts => ({
  turn: way && { node: NODE, way },
  isPodGone: false,
  nowMs: SOON_MS,
  ...change,
});
const unmerged = { target: { size: "6Gi", from: "6Gi", epoch: 3, decidedAt: DECIDED_AT } };
const waits = { refusal: { reason: "WaitingForMember" } };

it.each<[string, FilesystemLayout, MergeFacts, object]>([
  ["begins by growing where that is the way", span, facts("grow"), { mergeBy: "grow" }],
  ["begins by a larger member where that is the way", span, facts("replace"), { mergeBy: "replace" }],
  ["waits where another filesystem has the turn", span, facts("wait"), waits],
  ["ends at the present size where no pod waits", span, facts("drop"), { fields: unmerged }],
  ["waits where its layout shows only now that it is to begin", span, facts(), waits],
  [
    "waits where the filesystem is on another node by now",
    span,
    facts("grow", { turn: { node: "node-b", way: "grow" } }),
    waits,
  ],
  ["goes on while the pod waits for its new member", ordered, facts(), { mergeBy: undefined }],
  ["goes on by itself whatever the turn says", ordered, facts("drop"), { mergeBy: undefined }],
  ["lets its new member go once the pod is gone", ordered, facts(undefined, { isPodGone: true }), { fields: unmerged }],
  ["lets its new member go after the limit", ordered, facts(undefined, { nowMs: LATE_MS }), { fields: unmerged }],
  [
    "keeps its new member where it is mounted nowhere",
    unmounted(ordered),
    facts(undefined, { isPodGone: true }),
    { mergeBy: undefined },
  ],
])("a merge %s", (_what, layout, known, expected) => {
  expect(decideMerge(layout, WANTED, known)).toMatchObject(expected);
});

it("a merge that ends without one asks its new member to leave", () => {
  const decided = decideMerge(ordered, WANTED, facts(undefined, { isPodGone: true }));
  const members = "fields" in decided ? decided.fields.members : [];
  expect(members?.map(({ name, state }) => `${name} ${state}`)).toContain("m3 Removed");
});

it("only a merge that has not begun needs a turn", () => {
  const { members: _none, ...plain } = WANTED;
  expect([needsTurn(span, WANTED), needsTurn(ordered, WANTED), needsTurn(span, plain)]).toEqual([true, false, false]);
});
