import { describe, expect, it } from "@jest/globals";
import { drawPicture } from "../../../../demo/show/picture/picture.ts";
import { markLabels } from "../../../../demo/show/picture/picture-labels.ts";
import { createRunLog } from "../../../../demo/show/run/run-log.ts";
import { summarize } from "../../../../demo/show/views/summary.ts";
import { GIB } from "../../../../src/contracts/quantities/quantity.ts";
import { endedOperation, tideLog } from "../../../builders/run-log.ts";

function picture(log = tideLog()): string {
  const summary = summarize(log, {
    storage: "real",
    fsType: "btrfs",
    nominalBytes: 10 * GIB,
    extendAtRatio: 0.8,
    writer: { writtenBytes: 0, liveBytes: 0, maxWriteStallMs: 0 },
    writerErrors: [],
    verification: { filesVerified: 3, bytesVerified: 1, corruptFiles: 0, problems: [] },
  });
  return drawPicture(log, summary, GIB);
}

describe("the picture", () => {
  it("tells each change with its sizes", () => {
    const svg = picture();
    expect(svg).toContain("12.0 s  extend  1Gi → 1.34Gi · RuleFired");
    expect(svg).toContain("51.0 s  shrink, cancelled  1.95Gi → 1.56Gi");
  });

  it("says when the unmanaged filesystem was full", () => {
    expect(picture()).toContain("fixed 1Gi: disk full at 15 s");
  });

  it("carries colours for light and for dark", () => {
    expect(picture()).toContain("@media (prefers-color-scheme: dark)");
  });

  it("escapes what it was told", () => {
    const log = createRunLog();
    log.operations.push(endedOperation("Extend", 1, 2, { reason: `a < b & "c"` }));
    expect(picture(log)).toContain("a &lt; b &amp; &quot;c&quot;");
  });

  it("can be drawn of an empty run", () => {
    expect(picture(createRunLog())).toMatch(/^<svg .*<\/svg>\n$/s);
  });
});

describe("labels over the plot", () => {
  it("go to another row where they would touch", () => {
    const labels = [0, 10, 500].map((x) => ({ x, kind: "act", label: "files deleted" }) as const);
    expect(markLabels(labels, 1000).map(({ row }) => row)).toEqual([0, 1, 0]);
  });

  it("lie left of their line at the right edge", () => {
    expect(markLabels([{ x: 990, kind: "act", label: "files deleted" }], 1000)[0]?.anchor).toBe("end");
  });
});
