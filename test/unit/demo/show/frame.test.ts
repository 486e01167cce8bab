import { describe, expect, it } from "@jest/globals";
import type { Scene } from "../../../../demo/show/script/scene.ts";
import { type Paint, renderFrame, storyText } from "../../../../demo/show/views/frame.ts";
import { createPlainView } from "../../../../demo/show/views/plain-view.ts";
import { GIB } from "../../../../src/contracts/quantities/quantity.ts";
import { tideLog } from "../../../builders/run-log.ts";

const SCENE: Scene = {
  log: tideLog(),
  storage: "real",
  fsType: "btrfs",
  nowMs: 50_000,
  expectedDurationMs: 75_000,
  fixedSizeBytes: GIB,
  nominalBytes: 10 * GIB,
  mountPath: "/run/demo/volume",
  kubeconfig: "/run/demo/api/config",
};
const noPaint: Paint = (_, text) => text;

describe("a frame of the live view", () => {
  it.each([
    [200, 60],
    [100, 34],
    [80, 24],
    [40, 15],
    [20, 8],
    [12, 3],
  ])("fits into %d columns and %d rows", (columns, rows) => {
    const lines = renderFrame(SCENE, { columns, rows }, noPaint);
    expect(lines.length).toBeLessThanOrEqual(rows);
    expect(Math.max(...lines.map((line) => line.length))).toBeLessThanOrEqual(columns);
  });

  it("says where to look from another terminal", () => {
    const text = renderFrame(SCENE, { columns: 100, rows: 34 }, noPaint).join("\n");
    expect(text).toContain("df -h /run/demo/volume");
    expect(text).toContain("KUBECONFIG=/run/demo/api/config kubectl get fs -w");
  });

  it("tells the latest of the story, with its times", () => {
    const text = renderFrame(SCENE, { columns: 100, rows: 24 }, noPaint).join("\n");
    expect(text).toContain("  60.0 s  shrink  1600Mi → 1024Mi");
    expect(text).not.toContain("12.0 s  extend");
  });

  it("can be drawn before anything was seen", () => {
    const empty = { ...SCENE.log, points: [], story: [] };
    expect(renderFrame({ ...SCENE, log: empty, nowMs: 0 }, { columns: 80, rows: 24 }, noPaint).length).toBeGreaterThan(
      5,
    );
  });
});

describe("plain lines", () => {
  it("tell each thing once, however often they are updated", () => {
    const printed: string[] = [];
    const view = createPlainView((line) => printed.push(line));
    view.update(SCENE);
    view.update(SCENE);
    const lines = SCENE.log.story.map(({ kind, atMs, text }) => storyText(kind, atMs, text));
    expect(printed.slice(0, lines.length)).toEqual(lines);
    expect(new Set(printed).size).toBe(printed.length);
  });

  it("say every few seconds where size and use stand", () => {
    const printed: string[] = [];
    const view = createPlainView((line) => printed.push(line));
    const log = { ...SCENE.log, story: [], endedAtMs: undefined };
    for (let nowMs = 0; nowMs <= 20_000; nowMs += 500) view.update({ ...SCENE, log, nowMs });
    expect(printed).toHaveLength(4);
    expect(printed[0]).toBe("   5.0 s          size 1Gi, used 380Mi (37%)");
  });
});
