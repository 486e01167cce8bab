// One frame of the live view as lines of text, for any terminal size. Pure; writing it is terminal-view's.
import { formatBytes, GIB } from "../../../src/contracts/quantities/quantity.ts";
import { formatPercent } from "../../../src/contracts/quantities/ratio.ts";
import { type Cell, type CellKind, drawChart } from "../picture/chart.ts";
import { byteTicks, secondTicks } from "../picture/chart-scale.ts";
import { type StoryKind, type StoryLine, usedBytes } from "../run/run-log.ts";
import { placeLines } from "../script/places.ts";
import type { Scene } from "../script/scene.ts";

export interface FrameSize {
  readonly columns: number;
  readonly rows: number;
}

/** Puts a colour around a text; the identity where colours are off. */
export type Paint = (style: Style, text: string) => string;
export type Style = CellKind | StoryKind | "title" | "faint";

const AXIS_WIDTH = 10;
const CHART_ROWS_MAX = 16;
const CHART_ROWS_MIN = 4;
/** Lines that are neither chart nor story. */
const FRAME_LINES = 13;
const STORY_LINES_MIN = 3;

/** At most `size.rows` lines, none wider than `size.columns`. */
export function renderFrame(scene: Scene, size: FrameSize, paint: Paint): string[] {
  const chartRows = Math.max(
    CHART_ROWS_MIN,
    Math.min(CHART_ROWS_MAX, Math.floor((size.rows - FRAME_LINES - STORY_LINES_MIN) * 0.6)),
  );
  const head = [paint("title", cut(titleOf(scene), size.columns)), ""];
  const foot = footOf(scene, size.columns, paint);
  const chart = chartLines(scene, size.columns, chartRows, paint);
  const room = size.rows - head.length - chart.length - foot.length - 2;
  const story = storyLines(scene.log.story, Math.max(0, room), size.columns, paint);
  return [...head, ...chart, "", ...story, ...foot].slice(0, size.rows);
}

function titleOf({ storage, fsType, nowMs, log }: Scene): string {
  const act = log.story.findLast(({ kind }) => kind === "act")?.text ?? "Starting";
  return `Tidemark demo · ${storage} ${fsType} · ${(nowMs / 1000).toFixed(0)} s · ${act}`;
}

function chartLines(scene: Scene, columns: number, rows: number, paint: Paint): string[] {
  const { log } = scene;
  const spanMs = Math.max(scene.expectedDurationMs, scene.nowMs);
  const ticks = byteTicks(Math.max(2 * GIB, ...log.points.map(({ capacityBytes }) => capacityBytes)), 4);
  const maxBytes = ticks.at(-1) ?? GIB;
  const chartColumns = Math.max(1, columns - AXIS_WIDTH);
  const cells = drawChart({
    points: log.points,
    spanMs,
    maxBytes,
    fixedSizeBytes: scene.fixedSizeBytes,
    fixedFullAtMs: log.fixedVolumeFullAtMs,
    columns: chartColumns,
    rows,
  });
  const labels = axisLabels(ticks, maxBytes, rows);
  return [
    ...cells.map(
      (row, index) => paint("faint", `${(labels[index] ?? "").padStart(AXIS_WIDTH - 2)} │`) + joined(row, paint),
    ),
    paint("faint", `${"0".padStart(AXIS_WIDTH - 2)} └${"─".repeat(chartColumns)}`),
    paint("faint", timeAxis(spanMs, chartColumns)),
    legendOf(scene, columns, paint),
  ];
}

function axisLabels(ticks: readonly number[], maxBytes: number, rows: number): string[] {
  const labels = new Array<string>(rows).fill("");
  for (const tick of ticks) {
    const fromTop = rows - Math.round((tick / maxBytes) * rows);
    if (tick > 0 && fromTop < rows) labels[fromTop] = formatBytes(tick);
  }
  return labels;
}

function timeAxis(spanMs: number, chartColumns: number): string {
  const line = new Array<string>(AXIS_WIDTH + chartColumns).fill(" ");
  for (const second of secondTicks(spanMs, Math.max(1, Math.floor(chartColumns / 10)))) {
    const start = AXIS_WIDTH + Math.floor(((second * 1000) / spanMs) * chartColumns);
    const label = `${second} s`;
    if (start + label.length <= line.length) line.splice(start, label.length, ...label);
  }
  return line.join("");
}

/** Neighbours of one kind share their colour codes. */
function joined(row: readonly Cell[], paint: Paint): string {
  let text = "";
  for (let start = 0; start < row.length; ) {
    const kind = row[start]?.kind ?? "empty";
    let end = start;
    while (end < row.length && row[end]?.kind === kind) end += 1;
    text += paint(
      kind,
      row
        .slice(start, end)
        .map((cell) => cell.text)
        .join(""),
    );
    start = end;
  }
  return text;
}

function legendOf({ log, fixedSizeBytes }: Scene, columns: number, paint: Paint): string {
  const last = log.points.at(-1);
  const used =
    last === undefined
      ? ""
      : ` ${formatBytes(usedBytes(last))} = ${formatPercent(round(usedBytes(last) / last.capacityBytes))}`;
  const size = last === undefined ? "" : ` ${formatBytes(last.capacityBytes)}`;
  const full =
    log.fixedVolumeFullAtMs === undefined ? "" : `: disk full at ${(log.fixedVolumeFullAtMs / 1000).toFixed(0)} s`;
  const parts: [Style, string][] = [
    ["used", `█ used${used}`],
    ["size", `─ size${size}`],
    [full === "" ? "fixed" : "full", `┄ unmanaged ${formatBytes(fixedSizeBytes)}${full}`],
  ];
  return fitted(parts, columns, paint);
}

/** As many of the parts as fit. */
function fitted(parts: readonly (readonly [Style, string])[], columns: number, paint: Paint): string {
  let width = 0;
  let text = "";
  for (const [style, part] of parts) {
    if (width + part.length + 3 > columns) break;
    text += `${paint(style, part)}   `;
    width += part.length + 3;
  }
  return text.trimEnd();
}

function storyLines(story: readonly StoryLine[], rows: number, columns: number, paint: Paint): string[] {
  const shown = rows === 0 ? [] : story.slice(-rows);
  const lines = shown.map(({ kind, atMs, text }) => paint(kind, cut(storyText(kind, atMs, text), columns)));
  return [...lines, ...new Array<string>(rows - shown.length).fill("")];
}

/** "  12.1 s  extend  1 GiB → 1.37 GiB …": the same in the live view and in plain lines. */
export function storyText(kind: StoryKind, atMs: number, text: string): string {
  return `${(atMs / 1000).toFixed(1).padStart(6)} s  ${(kind === "act" || kind === "note" ? "" : kind).padEnd(6)}  ${text}`;
}

function footOf(places: Scene, columns: number, paint: Paint): string[] {
  const lines = ["", ...placeLines("In another terminal:", places)];
  return lines.map((line) => paint("faint", cut(line, columns)));
}

function cut(text: string, columns: number): string {
  return text.length <= columns ? text : `${text.slice(0, Math.max(0, columns - 1))}…`;
}

function round(ratio: number): number {
  return Math.round(ratio * 100) / 100;
}
