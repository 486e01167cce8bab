import { describe, expect, it } from "@jest/globals";
import { budgetedBytes, filesystemSizeBytes } from "../../../../src/contracts/formulas/filesystem-size.ts";
import type { FilesystemLayout, MemberSpec } from "../../../../src/contracts/kinds/filesystem-layout.ts";
import { GIB } from "../../../../src/contracts/quantities/quantity.ts";
import { buildSpan, type SpanFields } from "../../../builders/span.ts";
import { buildLayout } from "../../../builders/volume.ts";

type Member = [size: string, state: "Present" | "Missing" | "Removed"];

function layoutOf(ordered: readonly MemberSpec["state"][], reported: readonly Member[] | undefined): FilesystemLayout {
  return buildLayout({
    spec: { members: ordered.map((state, i) => ({ name: `m${i}`, size: "7Gi", state, source: {} })) },
    status: reported && { members: reported.map(([size, state], i) => ({ name: `m${i}`, size, state })) },
  });
}

it("the size of a span does not count, or wait for, a member that is on its way", () => {
  const span = (sizes: NonNullable<SpanFields["reported"]>) =>
    filesystemSizeBytes(buildSpan({ sizes: ["2Gi", "1Gi"], reported: sizes }));
  expect(span({ m1: null })).toBe(2 * GIB);
  expect(span({})).toBe(3 * GIB);
  expect(span({ m1: { state: "Missing" } })).toBeUndefined();
  expect(span({ m0: null, m1: null })).toBeUndefined();
});

describe("the size of a filesystem", () => {
  it.each<[string, FilesystemLayout, number | undefined]>([
    [
      "is the sum of its members",
      layoutOf(
        ["Present", "Present"],
        [
          ["1Gi", "Present"],
          ["2Gi", "Present"],
        ],
      ),
      3 * GIB,
    ],
    ["is what the node reports, not what was ordered", layoutOf([undefined], [["2Gi", "Present"]]), 2 * GIB],
    ["is unknown before the first report", layoutOf(["Present"], undefined), undefined],
    ["is unknown while the node reports no member", layoutOf(["Present"], []), undefined],
    [
      "is unknown, not smaller, while a member is missing",
      layoutOf(
        ["Present", "Present"],
        [
          ["1Gi", "Present"],
          ["2Gi", "Missing"],
        ],
      ),
      undefined,
    ],
    [
      "is unknown, not smaller, while the node says nothing of a member",
      layoutOf(["Present", "Present"], [["1Gi", "Present"]]),
      undefined,
    ],
    [
      "is unknown while a member's size cannot be read",
      layoutOf(
        ["Present", "Present"],
        [
          ["1Gi", "Present"],
          ["9Ei", "Present"],
        ],
      ),
      undefined,
    ],
    [
      "is unknown while a member is reported with 0 bytes",
      layoutOf(
        ["Present", "Present"],
        [
          ["1Gi", "Present"],
          ["0", "Present"],
        ],
      ),
      undefined,
    ],
    [
      "leaves out a removed member",
      layoutOf(
        ["Present", "Removed"],
        [
          ["1Gi", "Present"],
          ["2Gi", "Removed"],
        ],
      ),
      GIB,
    ],
    [
      "leaves out a removed member that the node has forgotten",
      layoutOf(["Present", "Removed"], [["1Gi", "Present"]]),
      GIB,
    ],
    [
      "counts a member that is still to be removed",
      layoutOf(
        ["Present", "Removed"],
        [
          ["1Gi", "Present"],
          ["2Gi", "Present"],
        ],
      ),
      3 * GIB,
    ],
    ["is unknown once all members are removed", layoutOf(["Removed"], [["1Gi", "Removed"]]), undefined],
    [
      "counts members of which the spec knows nothing, as on a layout made anew",
      layoutOf([], [["1Gi", "Present"]]),
      GIB,
    ],
  ])("%s", (_case, layout, bytes) => {
    expect(filesystemSizeBytes(layout)).toBe(bytes);
  });
});

describe("what a filesystem takes of its namespace's budget", () => {
  it.each<[string, FilesystemLayout, number]>([
    [
      "is its size",
      layoutOf(
        ["Present", "Present"],
        [
          ["1Gi", "Present"],
          ["2Gi", "Present"],
        ],
      ),
      3 * GIB,
    ],
    [
      "does not become less because a member is missing",
      layoutOf(
        ["Present", "Present"],
        [
          ["1Gi", "Present"],
          ["2Gi", "Missing"],
        ],
      ),
      3 * GIB,
    ],
    [
      "becomes less once a member is removed",
      layoutOf(
        ["Present", "Removed"],
        [
          ["1Gi", "Present"],
          ["2Gi", "Removed"],
        ],
      ),
      GIB,
    ],
    ["is nothing before the first report", layoutOf(["Present"], undefined), 0],
  ])("%s", (_case, layout, bytes) => {
    expect(budgetedBytes(layout)).toBe(bytes);
  });
});
