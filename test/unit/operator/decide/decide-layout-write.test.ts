import { describe, expect, it } from "@jest/globals";
import {
  decideLayoutWrite,
  decideTrim,
  type LayoutWriteFacts,
  type MergeTurn,
} from "../../../../src/operator/decide/decide-layout-write.ts";
import { changedLayout } from "../../../../src/operator/volumes/layout-fields.ts";
import { buildFilesystem, buildLayout } from "../../../builders/volume.ts";
import { mounted } from "../../../harness/span-steps.ts";

const daily = { every: "24h" };
const hourly = { every: "1h" };

describe("the trims that the policy-engine asks for", () => {
  it.each(["loop", "lvm"] as const)("are copied to the layout of a %s volume", (backend) => {
    const plan = decideTrim(buildLayout({ spec: { backend } }), buildFilesystem({ trim: daily }));
    expect(plan).toEqual({ do: "copy", trim: daily });
  });

  it("replace those that stand, and are taken away with them", () => {
    const layout = buildLayout({ spec: { trim: daily } });
    expect(decideTrim(layout, buildFilesystem({ trim: hourly }))).toEqual({ do: "copy", trim: hourly });
    expect(decideTrim(layout, buildFilesystem())).toEqual({ do: "copy", trim: undefined });
    const written = JSON.parse(JSON.stringify(changedLayout(layout, { trim: undefined }))) as { spec: object };
    expect(written.spec).not.toHaveProperty("trim");
    expect(written.spec).toHaveProperty("members");
  });

  it("are left as they are where they stand already, or are not wanted and not there", () => {
    expect(decideTrim(buildLayout({ spec: { trim: daily } }), buildFilesystem({ trim: daily })).do).toBe("keep");
    expect(decideTrim(buildLayout(), buildFilesystem()).do).toBe("keep");
  });

  it.each(["span", "claim"] as const)("are none of a volume of the backend %s", (backend) => {
    expect(decideTrim(buildLayout({ spec: { backend } }), buildFilesystem({ trim: daily })).do).toBe("keep");
  });

  it("are none of a raw block volume", () => {
    const layout = buildLayout({ spec: { backend: "lvm", volumeMode: "Block" } });
    expect(decideTrim(layout, buildFilesystem({ trim: daily })).do).toBe("keep");
  });

  it("are nothing to a volume that is being deleted", () => {
    const removing = buildLayout({ spec: { members: [{ name: "m0", state: "Removed", source: {} }] } });
    expect(decideTrim(removing, buildFilesystem({ trim: daily })).do).toBe("keep");
  });
});

describe("the write of a layout", () => {
  const TARGET = { size: "2Gi", from: "1Gi", epoch: 3, decidedAt: "2030-01-01T00:00:00.000Z" };
  const RULES = { className: "member-class", maxMembers: 4, spareMembers: 0, strategy: "Auto" as const };
  const factsOf = (way?: MergeTurn["way"], node?: string): LayoutWriteFacts => ({
    memberClass: { rules: RULES, mayGrow: true, growthFailed: false },
    growthTimeMs: 0,
    merge: { turn: way && { node, way }, isPodGone: false, nowMs: Date.parse(TARGET.decidedAt) },
  });
  const span = mounted("2Gi", "2Gi", "2Gi");
  const merging = buildFilesystem({ target: { ...TARGET, size: "6Gi", from: "6Gi", members: 2 } });

  it("carries a target and trims at once", () => {
    const filesystem = buildFilesystem({ target: TARGET, trim: daily });
    expect(decideLayoutWrite(buildLayout(), filesystem, factsOf())).toEqual({
      fields: { target: TARGET, trim: daily },
      beginsMerge: false,
    });
  });

  it("carries trims also where a deposed leader's target is refused", () => {
    const layout = buildLayout({ spec: { target: { ...TARGET, epoch: 5, decidedAt: "2029-01-01T00:00:00.000Z" } } });
    expect(decideLayoutWrite(layout, buildFilesystem({ target: TARGET, trim: daily }), factsOf())).toMatchObject({
      fields: { trim: daily },
      refusal: { reason: "StaleEpoch" },
    });
  });

  it("is none where nothing is wanted", () => {
    expect(decideLayoutWrite(buildLayout(), buildFilesystem(), factsOf())).toEqual({});
  });

  it("uses the turn in which members are merged from now on", () => {
    const { beginsMerge, fields } = decideLayoutWrite(span, merging, factsOf("grow", span.spec.nodeName));
    expect(beginsMerge).toBe(true);
    expect(fields?.members?.map(({ size }) => size)).toEqual(["4Gi", "2Gi", "2Gi"]);
  });

  it.each(["wait", "drop"] as const)("uses no turn where a merge is to %s", (way) => {
    expect(decideLayoutWrite(span, merging, factsOf(way, span.spec.nodeName)).beginsMerge).not.toBe(true);
  });
});
