import { describe, expect, it } from "@jest/globals";
import type { WantedTarget } from "../../../../src/contracts/kinds/filesystem.ts";
import type { FilesystemLayout, LastOperation } from "../../../../src/contracts/kinds/filesystem-layout.ts";
import { GIB } from "../../../../src/contracts/quantities/quantity.ts";
import {
  policyShrinkOf,
  REPLACEMENT_LIMIT_MS,
  replacementOf,
} from "../../../../src/policy-engine/gather/policy-shrink.ts";
import type { PendingTarget } from "../../../../src/policy-engine/gather/volume-registry.ts";
import { buildFilesystem, buildLayout, reported } from "../../../builders/volume.ts";

const DECIDED = "2026-11-20T12:00:00.000Z";
const LATER = "2026-11-20T12:00:05.000Z";
const target = (change: Partial<WantedTarget> = {}): WantedTarget => ({
  size: "2Gi",
  from: "4Gi",
  epoch: 1,
  decidedAt: DECIDED,
  ...change,
});
const running = (kind: "Shrink" | "Extend" = "Shrink", decidedAt: string | undefined = DECIDED) =>
  buildLayout({
    status: reported("4Gi", {
      operation: { kind, from: "4Gi", to: "2Gi", epoch: 1, decidedAt, startedAt: DECIDED, step: "shrinking" },
    }),
  });
const idle = buildLayout({ status: reported("4Gi") });
const ended = (decidedAt: string) => {
  const sizes = { from: "4Gi", to: "2Gi", reached: "4Gi", epoch: 1 };
  const times = { decidedAt, startedAt: DECIDED, endedAt: DECIDED };
  const lastOperation: LastOperation = { kind: "Shrink", outcome: "FloorReached", ...sizes, ...times };
  return buildLayout({ status: reported("4Gi", { lastOperation }) });
};
const replacing = (size: string, state: "Spare" | "Present") => {
  const layout = buildLayout({ status: reported(size) });
  const made = { name: "m9", size: "3Gi", state, replaces: { member: "m0", decidedAt: DECIDED }, source: {} };
  return {
    ...layout,
    spec: { ...layout.spec, backend: "span" as const, members: [...(layout.spec.members ?? []), made] },
  };
};
const pending = (change: Partial<PendingTarget> = {}): PendingTarget => ({
  kind: "Shrink",
  sizeBytes: 2 * GIB,
  mostBytes: 0,
  decidedAt: DECIDED,
  writtenAtMs: Date.parse(DECIDED),
  capacityBytes: 4 * GIB,
  attempt: 1,
  ...change,
});

describe("the shrink of a policy's that is under way", () => {
  it.each([
    ["runs on its node, for the target that stands", target(), running(), undefined, "Running"],
    ["is written, and its node has not begun it", target(), idle, pending(), "Running"],
    ["was asked to stop", target({ size: "4Gi", decidedAt: LATER }), running(), undefined, "Stopping"],
    [
      "was asked to stop before its node began it",
      target({ size: "4Gi", decidedAt: LATER }),
      idle,
      pending(),
      "Stopping",
    ],
    ["was written long ago, and its node has not begun it", target(), idle, undefined, "Running"],
    ["is a replacement whose new member is being made", target(), replacing("4Gi", "Spare"), undefined, "Running"],
    ["is a replacement whose new member is in", target(), replacing("7Gi", "Present"), undefined, "Running"],
    ["is none: the present size is what is wanted", target({ size: "4Gi" }), idle, undefined, undefined],
    ["is none: it has ended", target(), ended(DECIDED), undefined, undefined],
    ["is none: something later has ended", target(), ended(LATER), undefined, undefined],
    ["is none: it was decided on another size", target({ from: "5Gi" }), idle, undefined, undefined],
    [
      "is none: its leader was deposed",
      target(),
      buildLayout({ status: reported("4Gi", { epoch: 2 }) }),
      undefined,
      undefined,
    ],
    ["is none: it waits for an unmount that has not come", target({ notAfter: LATER }), idle, undefined, undefined],
    ["is none: an extend runs", target({ size: "6Gi" }), running("Extend"), undefined, undefined],
    ["is none: the operator has decided it by itself", target(), running("Shrink", LATER), undefined, undefined],
    ["is none: it merges members for a pod", target({ members: 2 }), running(), undefined, undefined],
    [
      "is none: it waits for an unmount",
      target({ notAfter: LATER }),
      idle,
      pending({ planned: { sizeBytes: 2 * GIB, fromBytes: 4 * GIB, notAfterMs: Date.parse(LATER) } }),
      undefined,
    ],
    ["is none: an extend comes first", target({ size: "6Gi", decidedAt: LATER }), running(), undefined, undefined],
  ] as const)("%s", (_what, wanted, layout, awaited, expected) => {
    expect(policyShrinkOf(buildFilesystem({ target: wanted }), layout, awaited)).toBe(expected);
  });
});

describe("a smaller member that takes a larger one's place", () => {
  const now = Date.parse(DECIDED) + 90_000;
  const of = (layout: FilesystemLayout, wanted = target(), nowMs = now) =>
    replacementOf(buildFilesystem({ target: wanted }), layout, nowMs);
  const withMember = (size: string, state: "Spare" | "Present", reportedState: "Spare" | "Present" = state) => {
    const layout = replacing(size, state);
    const made = { name: "m9", size: "3Gi", state: reportedState };
    return { ...layout, status: { ...layout.status, members: [...(layout.status?.members ?? []), made] } };
  };
  const extended = (outcome: LastOperation["outcome"]): FilesystemLayout => {
    const layout = withMember("4Gi", "Present");
    const decidedAt = new Date(Date.parse(DECIDED) - 1).toISOString();
    const sizes = { from: "4Gi", to: "7Gi", reached: "7Gi", epoch: 1 };
    const times = { decidedAt, startedAt: DECIDED, endedAt: DECIDED };
    return { ...layout, status: { ...layout.status, lastOperation: { kind: "Extend", outcome, ...sizes, ...times } } };
  };

  it.each<[string, FilesystemLayout]>([
    ["being made", replacing("4Gi", "Spare")],
    ["ready", withMember("4Gi", "Spare")],
    ["being taken in", withMember("4Gi", "Present", "Spare")],
    ["in, and its extend has ended", extended("Succeeded")],
  ])("keeps other shrinks waiting while it is %s", (_what, layout) => {
    expect(of(layout)).toMatch(/^member m9 takes the place of m0, for the 2Gi decided at/);
  });

  it.each<[string, FilesystemLayout, WantedTarget, number]>([
    ["none is made", idle, target(), now],
    ["it was made for another target", replacing("4Gi", "Spare"), target({ decidedAt: LATER }), now],
    ["somebody has changed the size", replacing("5Gi", "Spare"), target(), now],
    ["it could not be taken in", extended("Failed"), target(), now],
    ["it is for fewer members", replacing("4Gi", "Spare"), target({ members: 1 }), now],
    ["it has not come in ten minutes", replacing("4Gi", "Spare"), target(), now - 90_000 + REPLACEMENT_LIMIT_MS],
    ["the clock of the leader that decided it was ahead", replacing("4Gi", "Spare"), target(), now - 3_600_000],
  ])("keeps nothing waiting where %s", (_what, layout, wanted, nowMs) => {
    expect(of(layout, wanted, nowMs)).toBeUndefined();
  });
});
