// Where the labels over the plot go, so that none covers another: rows from the top, filled from the left. Pure.
import type { StoryKind } from "../run/run-log.ts";

export interface Label {
  readonly x: number;
  readonly kind: StoryKind;
  readonly label: string;
}

export interface PlacedLabel extends Label {
  /** 0 is the topmost; past the last row labels may touch. */
  readonly row: number;
  /** "end" near the right edge: the label then lies left of its line. */
  readonly anchor: "start" | "end";
}

const ROWS = 3;
const CHARACTER_WIDTH = 6.6;
const GAP = 12;

export function markLabels(labels: readonly Label[], rightEdge: number): PlacedLabel[] {
  const freeFrom = new Array<number>(ROWS).fill(Number.NEGATIVE_INFINITY);
  return labels.map((label) => {
    const width = label.label.length * CHARACTER_WIDTH;
    const anchor = label.x + width > rightEdge ? "end" : "start";
    const left = anchor === "end" ? label.x - width : label.x;
    const free = freeFrom.findIndex((from) => from <= left);
    const row = free < 0 ? freeFrom.indexOf(Math.min(...freeFrom)) : free;
    freeFrom[row] = left + width + GAP;
    return { ...label, row, anchor };
  });
}
