// Size and use over time in characters: use as filled blocks, size as a line over them, the unmanaged filesystem's size as a
// dotted one. Pure: points in, rows of cells out; colours are the terminal view's.
import { type SpacePoint, usedBytes } from "../run/run-log.ts";

export type CellKind = "empty" | "used" | "size" | "fixed" | "full";

export interface Cell {
  readonly kind: CellKind;
  readonly text: string;
}

export interface ChartInput {
  readonly points: readonly SpacePoint[];
  readonly spanMs: number;
  readonly maxBytes: number;
  readonly fixedSizeBytes: number;
  readonly fixedFullAtMs: number | undefined;
  readonly columns: number;
  readonly rows: number;
}

const BLOCKS = [" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"] as const;
/** A line within a cell can lie at its foot, in its middle or at its top. */
const LINES = ["▁", "─", "▔"] as const;
const EMPTY: Cell = { kind: "empty", text: " " };

/** Rows from the top, each of `columns` cells. */
export function drawChart(input: ChartInput): Cell[][] {
  const samples = resample(input.points, input.spanMs, input.columns);
  const toRows = (bytes: number): number => (bytes / input.maxBytes) * input.rows;
  return Array.from({ length: input.rows }, (_, fromTop) => {
    const row = input.rows - 1 - fromTop;
    return samples.map((sample, column) => {
      const line = sample && lineCell("size", toRows(sample.capacityBytes), row, input.rows);
      return (
        line ??
        (sample && blockCell(toRows(sample.usedBytes), row)) ??
        fixedCell(input, column, row, toRows(input.fixedSizeBytes)) ??
        EMPTY
      );
    });
  });
}

interface ColumnSample {
  readonly capacityBytes: number;
  readonly usedBytes: number;
}

/** For each column the last capacity and the highest use of its time; undefined where no sample lies. */
function resample(points: readonly SpacePoint[], spanMs: number, columns: number): (ColumnSample | undefined)[] {
  const samples = new Array<ColumnSample | undefined>(columns).fill(undefined);
  for (const point of points) {
    const column = Math.min(columns - 1, Math.max(0, Math.floor((point.atMs / spanMs) * columns)));
    samples[column] = {
      capacityBytes: point.capacityBytes,
      usedBytes: Math.max(samples[column]?.usedBytes ?? 0, usedBytes(point)),
    };
  }
  return samples;
}

function lineCell(kind: CellKind, height: number, row: number, rows: number): Cell | undefined {
  const clamped = Math.min(height, rows - 0.01);
  if (Math.floor(clamped) !== row) return undefined;
  return { kind, text: LINES[Math.floor((clamped - row) * LINES.length)] ?? "─" };
}

function blockCell(height: number, row: number): Cell | undefined {
  const eighths = Math.round(Math.min(1, Math.max(0, height - row)) * 8);
  return eighths === 0 ? undefined : { kind: "used", text: BLOCKS[eighths] ?? "█" };
}

// The dotted line ends where the unmanaged filesystem was full.
function fixedCell(input: ChartInput, column: number, row: number, height: number): Cell | undefined {
  if (Math.floor(height) !== row) return undefined;
  if (input.fixedFullAtMs === undefined) return { kind: "fixed", text: "┄" };
  const fullColumn = Math.floor((input.fixedFullAtMs / input.spanMs) * input.columns);
  if (column === fullColumn) return { kind: "full", text: "✕" };
  return column < fullColumn ? { kind: "fixed", text: "┄" } : undefined;
}
