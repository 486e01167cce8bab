import { describe, expect, it } from "@jest/globals";
import type { SizeTarget } from "../../../../src/contracts/kinds/filesystem.ts";
import type { FilesystemLayout } from "../../../../src/contracts/kinds/filesystem-layout.ts";
import { decideTarget } from "../../../../src/operator/decide/decide-target.ts";
import { buildSpan } from "../../../builders/span.ts";
import { buildFilesystem, buildLayout, reported } from "../../../builders/volume.ts";

const at = (second: number): string => new Date(Date.parse("2030-01-01T00:00:00Z") + second * 1000).toISOString();
const target = (second: number, epoch: number, size = "2Gi"): SizeTarget => ({
  size,
  from: "1Gi",
  epoch,
  decidedAt: at(second),
});
const decide = (layout: FilesystemLayout, wanted: SizeTarget | undefined) =>
  decideTarget(layout, buildFilesystem(wanted === undefined ? {} : { target: wanted }));
const withTarget = (known: SizeTarget) => buildLayout({ spec: { target: known } });

describe("the policy-engine's target", () => {
  it("is copied to a layout that has none", () => {
    expect(decide(buildLayout(), target(1, 1))).toEqual({ do: "copy", target: target(1, 1) });
  });

  it("is copied when it was decided later, under the same epoch or a higher one", () => {
    expect(decide(withTarget(target(1, 1)), target(2, 1)).do).toBe("copy");
    expect(decide(withTarget(target(1, 1)), target(2, 5)).do).toBe("copy");
  });

  it("is copied when it goes back to a smaller size: whether it may is the node's to judge", () => {
    expect(decide(withTarget(target(1, 1, "4Gi")), target(2, 1, "1Gi")).do).toBe("copy");
  });

  const kept: [string, FilesystemLayout, SizeTarget | undefined][] = [
    ["there is none", buildLayout(), undefined],
    ["it is there already", withTarget(target(1, 1)), target(1, 1)],
    ["a raised request was decided later", withTarget(target(5, 1, "12Gi")), target(2, 1)],
    ["it is old and its epoch too, which was right when it was written", withTarget(target(5, 9)), target(2, 1)],
    [
      "the node has ended it, and the layout was made again without it",
      buildLayout({
        status: reported("2Gi", {
          lastOperation: {
            kind: "Extend",
            from: "1Gi",
            to: "2Gi",
            reached: "2Gi",
            outcome: "Succeeded",
            epoch: 1,
            decidedAt: at(1),
            startedAt: at(1),
            endedAt: at(1),
          },
        }),
      }),
      target(1, 1),
    ],
    [
      "the volume is being deleted",
      buildLayout({ spec: { members: [{ name: "m0", state: "Removed", source: {} }] } }),
      target(1, 1),
    ],
  ];
  it.each(kept)("stays where it is when %s", (_name, layout, wanted) => {
    expect(decide(layout, wanted)).toEqual({ do: "keep" });
  });

  const stale: [string, FilesystemLayout][] = [
    ["on the layout's target", withTarget(target(1, 7))],
    ["reported by the node", buildLayout({ status: reported("1Gi", { epoch: 7 }) })],
    [
      "on the emergency grant",
      buildLayout({ spec: { emergency: { size: "2Gi", minAvailable: "1Gi", expiry: at(99), epoch: 7 } } }),
    ],
  ];
  it.each(stale)("is refused under an epoch lower than one %s", (_name, layout) => {
    const plan = decide(layout, target(2, 6));
    expect(plan.do).toBe("refuse");
    expect(plan).toMatchObject({ message: expect.stringContaining("epoch 6; the latest is 7") });
  });
});

describe("a deposed leader's target that was overtaken", () => {
  const outgrown = (size: string) => buildLayout({ status: reported(size, { epoch: 7 }) });

  it("is let lie: the size is there, or the filesystem is larger by now, and nobody is told that it stalls", () => {
    expect(decide(outgrown("2Gi"), target(2, 6))).toEqual({ do: "keep" });
    expect(decide(outgrown("4Gi"), target(2, 6))).toEqual({ do: "keep" });
  });

  it("keeps nothing else from being planned: a target that misses a member is planned again", () => {
    const layout = buildSpan({
      sizes: ["2Gi", "2Gi"],
      states: { m1: "Removed" },
      reported: { m1: { state: "Removed" } },
    });
    const raised = target(1, 7, "4Gi");
    const overtaken = { ...layout, spec: { ...layout.spec, target: raised } };
    expect(decide(overtaken, target(2, 6))).toEqual({ do: "copy", target: raised });
  });

  it("is refused while it would change the size", () => {
    expect(decide(outgrown("1Gi"), target(2, 6)).do).toBe("refuse");
    expect(decide(outgrown("4Gi"), { ...target(2, 6), from: "4Gi" }).do).toBe("refuse");
  });
});

describe("an extend of a span that met a removal", () => {
  /** To 4Gi, decided when m1 was thought to stay. */
  const extending = (m1: "Present" | "Removed", ended = false): FilesystemLayout => {
    const layout = buildSpan({
      sizes: ["2Gi", "2Gi"],
      states: { m1 },
      ...(m1 === "Removed" ? { reported: { m1: { state: "Removed" } } } : {}),
    });
    const operation = { kind: "Extend", from: "2Gi", to: "4Gi", reached: "2Gi", epoch: 1, startedAt: at(1) } as const;
    const lastOperation = { ...operation, decidedAt: at(1), endedAt: at(2), outcome: "Failed" } as const;
    return {
      ...layout,
      spec: { ...layout.spec, target: target(1, 1, "4Gi") },
      status: { ...layout.status, ...(ended ? { lastOperation } : {}) },
    };
  };

  it("is planned again once the removal turns out to be finished: what that member was to give is missing", () => {
    expect(decide(extending("Removed"), target(1, 1, "4Gi"))).toEqual({ do: "copy", target: target(1, 1, "4Gi") });
    // A raised request is on the layout alone.
    expect(decide(extending("Removed"), undefined)).toEqual({ do: "copy", target: target(1, 1, "4Gi") });
  });

  it.each<[string, FilesystemLayout]>([
    ["the member stays", extending("Present")],
    ["it has ended: the policy-engine decides on what was reached", extending("Removed", true)],
  ])("stays as it is where %s", (_what, layout) => {
    expect(decide(layout, target(1, 1, "4Gi"))).toEqual({ do: "keep" });
  });

  it("gives way to a later decision", () => {
    expect(decide(extending("Removed"), target(2, 1, "3Gi"))).toMatchObject({ do: "copy", target: { size: "3Gi" } });
  });
});
