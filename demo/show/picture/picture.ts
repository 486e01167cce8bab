// The picture of a run as SVG: use as an area, size as a line over it, the unmanaged filesystem's end, each change numbered and described
// below. Pure. It carries its own light and dark colours, so that it can stand in a README.
import { formatBytes, GIB } from "../../../src/contracts/quantities/quantity.ts";
import { formatPercent } from "../../../src/contracts/quantities/ratio.ts";
import { changesOf, type EndedOperation, type RunLog, type SpacePoint, usedBytes } from "../run/run-log.ts";
import type { DemoSummary } from "../views/summary.ts";
import { byteTicks, secondTicks } from "./chart-scale.ts";
import { markLabels } from "./picture-labels.ts";
import { PICTURE_STYLE } from "./picture-style.ts";
import { element, linePath, textElement } from "./svg.ts";

const WIDTH = 1200;
const PLOT = { left: 84, right: 1172, top: 164, bottom: 484 } as const;
const LEGEND_TOP = 548;
const LEGEND_ROW = 22;
const LEGEND_COLUMNS = 2;
/** More changes than this are not described below; they are in the summary. */
const LEGEND_ROWS_LIMIT = 12;
const POINTS_DRAWN_LIMIT = 1000;

interface Scale {
  readonly x: (atMs: number) => number;
  readonly y: (bytes: number) => number;
  readonly spanMs: number;
  readonly maxBytes: number;
}

/** A whole SVG document. */
export function drawPicture(log: RunLog, summary: DemoSummary, fixedSizeBytes: number): string {
  const scale = scaleOf(log);
  const changes = changesOf(log.operations);
  const legendRows = Math.min(LEGEND_ROWS_LIMIT, Math.ceil(changes.length / LEGEND_COLUMNS));
  const height = LEGEND_TOP + legendRows * LEGEND_ROW + 14;
  return `${element(
    "svg",
    {
      xmlns: "http://www.w3.org/2000/svg",
      viewBox: `0 0 ${WIDTH} ${height}`,
      width: WIDTH,
      height,
      role: "img",
      "aria-label": describe(summary),
    },
    element("style", {}, PICTURE_STYLE),
    element("rect", { class: "card", x: 0.5, y: 0.5, width: WIDTH - 1, height: height - 1, rx: 12 }),
    ...heading(summary),
    ...axes(scale),
    ...curves(scale, log.points),
    ...fixedVolume(scale, log, fixedSizeBytes),
    ...marks(scale, log),
    ...numbers(scale, changes),
    ...keys(),
    ...legend(changes, legendRows),
  )}\n`;
}

function describe(summary: DemoSummary): string {
  return `Size and use of a filesystem over ${(summary.durationMs / 1000).toFixed(0)} seconds: ${summary.extends} extends, ${summary.shrinks} shrinks`;
}

function scaleOf({ points, endedAtMs }: RunLog): Scale {
  const spanMs = Math.max(1000, endedAtMs ?? 0, points.at(-1)?.atMs ?? 0);
  const largest = points.reduce((most, { capacityBytes }) => Math.max(most, capacityBytes), GIB);
  const maxBytes = byteTicks(largest * 1.05, 6).at(-1) ?? largest;
  return {
    x: (atMs) => PLOT.left + (atMs / spanMs) * (PLOT.right - PLOT.left),
    y: (bytes) => PLOT.bottom - (bytes / maxBytes) * (PLOT.bottom - PLOT.top),
    spanMs,
    maxBytes,
  };
}

function heading(summary: DemoSummary): string[] {
  const verified = `${summary.filesVerified} files verified, ${summary.corruptFiles} corrupt, ${summary.writerErrors} write errors`;
  const average = formatPercent(Math.round((summary.averageCapacityBytes / summary.nominalBytes) * 100) / 100);
  return [
    textElement({ class: "title", x: 32, y: 46 }, "One filesystem under Tidemark, and one without it"),
    textElement(
      { class: "subtitle", x: 32, y: 72 },
      `${summary.storage} ${summary.fsType}, a claim of ${formatBytes(summary.nominalBytes)} that averaged ${formatBytes(summary.averageCapacityBytes)} (${average}) · ${verified}`,
    ),
  ];
}

function axes(scale: Scale): string[] {
  const horizontal = byteTicks(scale.maxBytes, 6).map((bytes) => [
    element("line", { class: "grid", x1: PLOT.left, x2: PLOT.right, y1: scale.y(bytes), y2: scale.y(bytes) }),
    textElement(
      { class: "tick", x: PLOT.left - 10, y: scale.y(bytes) + 4, "text-anchor": "end" },
      bytes === 0 ? "0" : formatBytes(bytes),
    ),
  ]);
  const vertical = secondTicks(scale.spanMs, 10).map((second) =>
    textElement(
      { class: "tick", x: scale.x(second * 1000), y: PLOT.bottom + 20, "text-anchor": "middle" },
      `${second} s`,
    ),
  );
  return [...horizontal.flat(), ...vertical];
}

function fixedVolume(scale: Scale, { fixedVolumeFullAtMs }: RunLog, fixedSizeBytes: number): string[] {
  const y = scale.y(fixedSizeBytes);
  const end = scale.x(fixedVolumeFullAtMs ?? scale.spanMs);
  const line = element("line", { class: "fixed", x1: PLOT.left, x2: end, y1: y, y2: y });
  if (fixedVolumeFullAtMs === undefined) return [line];
  const cross =
    linePath([
      [end - 6, y - 6],
      [end + 6, y + 6],
    ]) +
    linePath([
      [end - 6, y + 6],
      [end + 6, y - 6],
    ]);
  const text = `fixed ${formatBytes(fixedSizeBytes)}: disk full at ${(fixedVolumeFullAtMs / 1000).toFixed(0)} s`;
  return [
    line,
    element("path", { class: "full", d: cross }),
    textElement({ class: "full-text halo", x: end + 14, y: y + 5 }, text),
  ];
}

function curves(scale: Scale, points: readonly SpacePoint[]): string[] {
  const drawn = thinned(points);
  const first = drawn[0];
  const last = drawn.at(-1);
  if (first === undefined || last === undefined) return [];
  const use = drawn.map((point): [number, number] => [scale.x(point.atMs), scale.y(usedBytes(point))]);
  const area: [number, number][] = [[scale.x(first.atMs), PLOT.bottom], ...use, [scale.x(last.atMs), PLOT.bottom]];
  const size: [number, number][] = [];
  let previous = first;
  for (const point of drawn) {
    if (point.capacityBytes !== previous.capacityBytes)
      size.push([scale.x(point.atMs), scale.y(previous.capacityBytes)]);
    size.push([scale.x(point.atMs), scale.y(point.capacityBytes)]);
    previous = point;
  }
  return [
    element("path", { class: "used", d: `${linePath(area)}Z` }),
    element("path", { class: "used-line", d: linePath(use) }),
    element("path", { class: "size", d: linePath(size) }),
  ];
}

/** Every sample at which the size changes, and of the others as many as the picture can show. */
function thinned(points: readonly SpacePoint[]): SpacePoint[] {
  const step = Math.max(1, Math.ceil(points.length / POINTS_DRAWN_LIMIT));
  return points.filter(
    (point, index) =>
      index % step === 0 || index === points.length - 1 || point.capacityBytes !== points[index - 1]?.capacityBytes,
  );
}

/** What the demo did to the run, as flags over the plot. */
function marks(scale: Scale, { story }: RunLog): string[] {
  const labelled = story.flatMap(({ atMs, kind, label }) =>
    label === undefined ? [] : [{ x: scale.x(atMs), kind, label }],
  );
  return markLabels(labelled, PLOT.right).flatMap(({ x, row, anchor, kind, label }) => {
    const y = 108 + row * 18;
    return [
      element("line", { class: kind === "fault" ? "mark fault" : "mark", x1: x, x2: x, y1: y + 5, y2: PLOT.bottom }),
      textElement({ class: kind === "fault" ? "label fault-text" : "label", x, y, "text-anchor": anchor }, label),
    ];
  });
}

function numbers(scale: Scale, changes: readonly EndedOperation[]): string[] {
  return changes.flatMap((change, index) => {
    const x = scale.x(change.endedAtMs);
    const y = scale.y(Math.max(change.fromBytes, change.reachedBytes)) - 14;
    return [
      element("circle", { class: `dot ${styleOf(change)}`, cx: x, cy: y, r: 10 }),
      textElement({ class: "dot-text", x, y: y + 4, "text-anchor": "middle" }, String(index + 1)),
    ];
  });
}

function keys(): string[] {
  const y = PLOT.bottom + 44;
  return [
    element("rect", { class: "used-key", x: PLOT.left, y: y - 10, width: 14, height: 12 }),
    textElement({ class: "tick", x: PLOT.left + 22, y }, "used"),
    element("line", { class: "size", x1: PLOT.left + 76, x2: PLOT.left + 100, y1: y - 4, y2: y - 4 }),
    textElement({ class: "tick", x: PLOT.left + 108, y }, "size"),
    element("line", { class: "fixed", x1: PLOT.left + 160, x2: PLOT.left + 184, y1: y - 4, y2: y - 4 }),
    textElement({ class: "tick", x: PLOT.left + 192, y }, "size of the unmanaged one"),
  ];
}

function legend(changes: readonly EndedOperation[], rows: number): string[] {
  const columnWidth = (WIDTH - 64) / LEGEND_COLUMNS;
  return changes.slice(0, rows * LEGEND_COLUMNS).map((change, index) => {
    const x = 32 + Math.floor(index / rows) * columnWidth;
    const y = LEGEND_TOP + (index % rows) * LEGEND_ROW + 8;
    return element(
      "g",
      {},
      element("circle", { class: `dot ${styleOf(change)}`, cx: x + 10, cy: y - 4, r: 8.5 }),
      textElement({ class: "dot-text", x: x + 10, y, "text-anchor": "middle" }, String(index + 1)),
      textElement({ class: "legend", x: x + 28, y }, legendText(change)),
    );
  });
}

function styleOf({ kind, outcome }: EndedOperation): string {
  if (outcome !== "Succeeded") return "ended";
  return kind === "Extend" ? "extend" : "shrink";
}

const OUTCOME_TEXT: Readonly<Record<EndedOperation["outcome"], string>> = {
  Succeeded: "",
  Cancelled: ", cancelled",
  FloorReached: ", floor reached",
  Failed: ", failed",
};

function legendText({ kind, outcome, fromBytes, reachedBytes, endedAtMs, reason }: EndedOperation): string {
  const time = `${(endedAtMs / 1000).toFixed(1)} s`;
  const why = reason === "" ? "" : ` · ${reason}`;
  return `${time}  ${kind.toLowerCase()}${OUTCOME_TEXT[outcome]}  ${formatBytes(fromBytes)} → ${formatBytes(reachedBytes)}${why}`;
}
