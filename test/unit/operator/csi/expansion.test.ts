import { describe, expect, it } from "@jest/globals";
import type { RefusalCode } from "../../../../src/contracts/csi/refusal.ts";
import type { FilesystemLayout } from "../../../../src/contracts/kinds/filesystem-layout.ts";
import { GIB } from "../../../../src/contracts/quantities/quantity.ts";
import { expansionTarget, requireExpandable } from "../../../../src/operator/csi/expand-volume.ts";
import { buildLayout, reported } from "../../../builders/volume.ts";

const NOW_MS = Date.parse("2030-01-01T00:00:10.500Z");
const EARLIER = "2030-01-01T00:00:00.000Z";

const target = (size: string, from: string, epoch = 4) => ({ size, from, epoch, decidedAt: EARLIER });
const ended = (outcome: "Succeeded" | "Failed") => ({
  kind: "Extend" as const,
  from: "1Gi",
  to: "12Gi",
  reached: "1Gi",
  epoch: 4,
  decidedAt: EARLIER,
  startedAt: EARLIER,
  endedAt: EARLIER,
  outcome,
});
const shrinking = {
  kind: "Shrink" as const,
  from: "20Gi",
  to: "5Gi",
  step: "resize",
  epoch: 6,
  startedAt: EARLIER,
};

describe("a raised request", () => {
  it("is a target from the present size under the highest epoch known", () => {
    const layout = buildLayout({ status: reported("3Gi", { epoch: 9 }), spec: { target: target("3Gi", "1Gi") } });
    expect(expansionTarget(layout, 12 * GIB, NOW_MS)).toEqual({
      size: "12Gi",
      from: "3Gi",
      epoch: 9,
      decidedAt: "2030-01-01T00:00:10.500Z",
    });
  });

  it("is decided after the target that stands, even where this clock is behind the one that decided it", () => {
    const ahead = { ...target("3Gi", "1Gi"), decidedAt: "2030-01-01T00:30:00.000Z" };
    const layout = buildLayout({ status: reported("3Gi"), spec: { target: ahead } });
    expect(expansionTarget(layout, 12 * GIB, NOW_MS)?.decidedAt).toBe("2030-01-01T00:30:00.001Z");
  });

  it("counts from the ordered size before the node's first report", () => {
    expect(expansionTarget(buildLayout(), 12 * GIB, NOW_MS)).toMatchObject({ size: "12Gi", from: "1Gi" });
  });

  const enough: [string, FilesystemLayout][] = [
    ["the filesystem is larger already", buildLayout({ status: reported("20Gi") })],
    ["a larger target is under way", buildLayout({ status: reported("1Gi"), spec: { target: target("12Gi", "1Gi") } })],
    [
      "it was carried out",
      buildLayout({
        status: reported("12Gi", { lastOperation: ended("Succeeded") }),
        spec: { target: target("12Gi", "1Gi") },
      }),
    ],
  ];
  it.each(enough)("needs nothing when %s", (_name, layout) => {
    expect(expansionTarget(layout, 12 * GIB, NOW_MS)).toBeUndefined();
  });

  it("is decided anew when the last attempt ended short of it", () => {
    const status = reported("1Gi", { lastOperation: ended("Failed") });
    const layout = buildLayout({ status, spec: { target: target("12Gi", "1Gi") } });
    expect(expansionTarget(layout, 12 * GIB, NOW_MS)).toMatchObject({ size: "12Gi", from: "1Gi" });
  });

  it("ends a shrink that would go under it, and never shrinks by itself", () => {
    const layout = buildLayout({
      status: reported("20Gi", { operation: shrinking }),
      spec: { target: target("5Gi", "20Gi") },
    });
    expect(expansionTarget(layout, 12 * GIB, NOW_MS)).toMatchObject({ size: "20Gi", from: "20Gi", epoch: 6 });
  });

  it("is refused over maxSize, over the call's own limit, while deleting, and while the size is not known", () => {
    const expand = (layout: FilesystemLayout, limitBytes = 0) =>
      expect(() => requireExpandable(layout, 12 * GIB, limitBytes));
    const refused = (code: RefusalCode) => expect.objectContaining({ code });
    const members = [{ name: "m0", source: {} }];
    expand(buildLayout()).not.toThrow();
    expand(buildLayout({ annotations: { "tidemark.dev/max-size": "11Gi" } })).toThrow(refused("OUT_OF_RANGE"));
    expand(buildLayout(), 11 * GIB).toThrow(refused("OUT_OF_RANGE"));
    expand(buildLayout({ spec: { members } })).toThrow(refused("UNAVAILABLE"));
    expand(buildLayout({ spec: { members: [{ name: "m0", state: "Removed", source: {} }] } })).toThrow(
      refused("FAILED_PRECONDITION"),
    );
  });
});
