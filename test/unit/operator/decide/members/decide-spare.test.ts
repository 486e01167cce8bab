import { describe, expect, it } from "@jest/globals";
import type { FilesystemLayoutStatus } from "../../../../../src/contracts/kinds/filesystem-layout.ts";
import { GIB } from "../../../../../src/contracts/quantities/quantity.ts";
import { decideSpare } from "../../../../../src/operator/decide/members/decide-spare.ts";
import { buildSpan, type SpanFields } from "../../../../builders/span.ts";

const rules = (spareMembers: number, maxMembers = 4) => ({
  className: "member-class",
  maxMembers,
  spareMembers,
  strategy: "Auto" as const,
});
const ONE: SpanFields = { sizes: ["2Gi"], granted: "4500Mi" };
const UNGRANTED: SpanFields = { sizes: ["2Gi", "2Gi"], states: { m1: "Spare" }, reported: { m1: null } };
const WITH_SPARE: SpanFields = { ...ONE, ...UNGRANTED };

function decide(fields: SpanFields, status: Partial<FilesystemLayoutStatus> = {}, ofClass = rules(1)) {
  const layout = buildSpan(fields);
  const { nodeName } = layout.spec;
  return decideSpare({ ...layout, status: { ...layout.status, nodeName, ...status } }, ofClass);
}

describe("a spare is made", () => {
  it.each<[string, SpanFields, number]>([
    ["as large as what an emergency may take, in whole GiB", ONE, 2 * GIB],
    ["of 1 GiB at least", { ...ONE, granted: "2100Mi" }, GIB],
    ["beside members that are all in the filesystem", { sizes: ["2Gi", "2Gi"], granted: "7Gi" }, 3 * GIB],
  ])("%s", (_what, fields, sizeBytes) => {
    expect(decide(fields)).toEqual({ do: "order", sizeBytes });
  });
});

describe("nothing is done about a spare", () => {
  it.each<[string, SpanFields, Partial<FilesystemLayoutStatus>]>([
    ["that is there, or on its way", WITH_SPARE, {}],
    ["that is ready", { ...WITH_SPARE, reported: { m1: { state: "Spare" } } }, {}],
    ["that an emergency has just taken in", { ...WITH_SPARE, reported: { m1: { state: "Present" } } }, {}],
    ["while another member is on its way", { ...ONE, sizes: ["2Gi", "2Gi"], reported: { m1: null } }, {}],
    ["while a member leaves", { ...ONE, sizes: ["2Gi", "2Gi"], states: { m1: "Removed" } }, {}],
    [
      "while the claim of a member that has left is not gone",
      { ...ONE, sizes: ["2Gi", "2Gi"], states: { m1: "Removed" }, reported: { m1: { state: "Removed" } } },
      {},
    ],
    ["while the volume is not mounted", ONE, { mounted: false }],
    ["while another node reports", ONE, { nodeName: "node-z" }],
    [
      "while an operation runs",
      ONE,
      { operation: { kind: "Extend", from: "1Gi", to: "2Gi", epoch: 1, startedAt: "2030-01-01T00:00:00Z", step: "" } },
    ],
    ["that is of another size, but may be taken in", { ...WITH_SPARE, granted: "3100Mi", sizes: ["2Gi", "1Gi"] }, {}],
    ["whose grant was taken back", UNGRANTED, {}],
  ])("%s", (_what, fields, status) => {
    expect(decide(fields, status)).toEqual({ do: "keep" });
  });

  it("while a member is to take the place of others, also once it is in the filesystem", () => {
    const { spec, ...layout } = buildSpan({ sizes: ["2Gi", "2Gi"], granted: "7Gi" });
    const replaces = { member: "m0", decidedAt: "2030-01-01T00:00:00Z" };
    const members = spec.members?.map((member) => (member.name === "m1" ? { ...member, replaces } : member));
    const status = { ...layout.status, nodeName: spec.nodeName };
    expect(decideSpare({ ...layout, spec, status }, rules(1))).toMatchObject({ do: "order" });
    expect(decideSpare({ ...layout, spec: { ...spec, members }, status }, rules(1))).toEqual({ do: "keep" });
  });

  it("where the class wants none", () => {
    expect(decide(ONE, {}, rules(0))).toEqual({ do: "keep" });
    expect(decideSpare(buildSpan(ONE), undefined)).toEqual({ do: "keep" });
  });
});

it("a spare that is larger than what anything may take in now is dropped, for a smaller one", () => {
  expect(decide({ ...WITH_SPARE, granted: "3Gi" })).toEqual({ do: "drop", name: "m1" });
});

describe("a spare that its driver has made larger than it was asked for", () => {
  const ungranted = (size: string): SpanFields => ({ ...UNGRANTED, reported: { m1: { size, state: "Spare" } } });
  const made = (size: string, granted: string): SpanFields => ({ ...ungranted(size), granted });

  it("stays as far as an emergency takes it as it is", () => {
    expect(decide(made("3Gi", "4500Mi"))).toEqual({ do: "keep" });
  });

  it("goes where an emergency may not take so much, and its rounding is remembered", () => {
    const rounding = { askedBytes: 2 * GIB, gotBytes: 4 * GIB };
    expect(decide(made("4Gi", "4500Mi"))).toEqual({ do: "drop", name: "m1", rounding });
  });

  it("stays until its node has looked at it, whatever its driver says", () => {
    const { spec, ...layout } = buildSpan(WITH_SPARE);
    const members = spec.members?.map((member) => {
      const claim = { name: "claim", ...member.source.claim, capacity: "4Gi" };
      return { ...member, source: { claim } };
    });
    const status = { ...layout.status, nodeName: spec.nodeName };
    expect(decideSpare({ ...layout, spec: { ...spec, members }, status }, rules(1))).toEqual({ do: "keep" });
  });

  it("stays where the grant was taken back", () => {
    expect(decide(ungranted("4Gi"))).toEqual({ do: "keep" });
  });

  it.each<[string, { askedBytes: number; gotBytes: number }, object]>([
    ["none is made where each would be too large", { askedBytes: GIB, gotBytes: 4 * GIB }, { do: "lack" }],
    [
      "a smaller one is made where that may fit",
      { askedBytes: 2 * GIB, gotBytes: 4 * GIB },
      { do: "order", sizeBytes: GIB },
    ],
    [
      "one is made where it is of use all the same",
      { askedBytes: 2 * GIB, gotBytes: 3 * GIB },
      { do: "order", sizeBytes: 2 * GIB },
    ],
    ["one is made where it is more that became too large", { askedBytes: 3 * GIB, gotBytes: 4 * GIB }, { do: "order" }],
  ])("is remembered: %s", (_what, rounding, expected) => {
    const layout = buildSpan(ONE);
    const status = { ...layout.status, nodeName: layout.spec.nodeName };
    const plan = decideSpare({ ...layout, status }, rules(1), [rounding]);
    expect(plan).toMatchObject(expected);
    if (plan.do === "lack")
      expect(plan.message).toBe(
        "there is no spare member: class member-class has lately made members of 4Gi or more where 1Gi were asked for, and an emergency " +
          "takes one of at most 3Gi",
      );
  });
});

it("a spare is ordered as much smaller as a class takes that rounds up what is of whole GiB", () => {
  const layout = buildSpan({ ...ONE, granted: "7Gi" });
  const status = { ...layout.status, nodeName: layout.spec.nodeName };
  const roundings = [5, 4].map((size) => ({ askedBytes: size * GIB, gotBytes: size * GIB + GIB / 4 }));
  const order = (known: typeof roundings) => decideSpare({ ...layout, status }, rules(1), known);
  expect(order([])).toEqual({ do: "order", sizeBytes: 5 * GIB });
  expect(order(roundings.slice(0, 1))).toEqual({ do: "order", sizeBytes: 4 * GIB });
  expect(order(roundings)).toEqual({ do: "order", sizeBytes: 4 * GIB });
});

describe("of more spares than the class asks for, each a device that was wiped", () => {
  const READY = { state: "Spare" as const };
  const three = (sizes: string[], granted?: string): SpanFields => ({
    sizes: ["2Gi", ...sizes],
    ...(granted === undefined ? {} : { granted }),
    states: { m1: "Spare", m2: "Spare", m3: "Spare" },
    reported: { m1: READY, m2: READY, m3: READY },
  });

  it.each<[string, SpanFields, string]>([
    ["the one goes that gives an emergency the least", three(["2Gi", "1Gi", "2Gi"], "5Gi"), "m2"],
    ["of equal ones the last goes", three(["2Gi", "2Gi", "2Gi"], "5Gi"), "m3"],
    ["one goes before that is larger than what is granted", three(["2Gi", "1Gi", "4Gi"], "4Gi"), "m3"],
    [
      "one goes before whose device is larger than what is granted",
      { ...three(["2Gi", "1Gi", "2Gi"], "4Gi"), reported: { m1: READY, m2: READY, m3: { ...READY, size: "4Gi" } } },
      "m3",
    ],
    ["without a grant the largest goes", three(["2Gi", "4Gi", "1Gi"]), "m2"],
  ])("%s", (_what, fields, name) => {
    expect(decide(fields)).toEqual({ do: "drop", name });
  });

  it("goes the only one where the class asks for none", () => {
    const ready = { ...WITH_SPARE, reported: { m1: READY } };
    expect(decide(ready, {}, rules(0))).toEqual({ do: "drop", name: "m1" });
    expect(decide(ready)).toEqual({ do: "keep" });
  });

  it.each<[string, SpanFields, Partial<FilesystemLayoutStatus>]>([
    ["is not looked at yet", { ...three(["2Gi"], "5Gi"), reported: { m1: null } }, {}],
    ["is in the filesystem", { ...three(["2Gi"], "5Gi"), reported: { m1: { state: "Present" } } }, {}],
    ["is of a filesystem that is mounted nowhere", three(["2Gi"], "5Gi"), { mounted: false }],
    [
      "is refused",
      { ...three(["2Gi"], "5Gi"), reported: { m1: null } },
      { refused: [{ name: "m1", message: "it carries ext4" }] },
    ],
  ])("none that %s", (_what, fields, status) => {
    expect(decide(fields, status, rules(0))).toEqual({ do: "keep" });
  });
});

it.each<[string, SpanFields, number, string]>([
  ["all places are taken", { ...ONE, sizes: ["2Gi", "2Gi"], granted: "9Gi" }, 2, "2 members of at most 2 are there"],
  ["nothing is granted", { sizes: ["2Gi"] }, 4, "no policy grants it an emergency extend"],
])("why there is none is told where %s", (_where, fields, maxMembers, text) => {
  expect(decide(fields, {}, rules(1, maxMembers))).toEqual({ do: "lack", message: expect.stringContaining(text) });
});
